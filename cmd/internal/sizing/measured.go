package sizing

// Measured are the costs of docs/measured/scale.md, at 2000 trajectories at once. "make scale" writes this file.
var Measured = Costs{
	Worker: ms(1.978), Server: ms(2.63), NATS: ms(2.93), Session: ms(27.28),
	WorkerKiB: 187, NATSKiB: 45, SessionMiB: 9.2, BrokerBytes: 110.6, CallBytes: 14.0, RowBytes: 3.8,
}

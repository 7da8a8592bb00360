package sizing

// Measured are the costs of docs/measured/scale.md, at 2000 trajectories at once. "make scale" writes this file.
var Measured = Costs{
	Worker: ms(4.118), Server: ms(6.47), NATS: ms(10.43), Session: ms(44.96),
	WorkerKiB: 165, NATSKiB: 40, SessionMiB: 8.2, BrokerBytes: 182.2, CallBytes: 13.9, RowBytes: 3.8,
}

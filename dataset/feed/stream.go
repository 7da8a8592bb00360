package feed

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc"

	pb "github.com/verigraph/verigraph/proto/verigraph/v1"
)

// chunkSize is well under gRPC's default message limit of 4 MiB, so that a client with default settings
// reads a batch of any size; measured throughput is flat from 256 KiB to 1 MiB.
const chunkSize = 512 << 10

// service implements RolloutService. Its context ends when the server stops.
type service struct {
	pb.UnimplementedRolloutServiceServer
	source   Source
	stopping context.Context
}

// untilStop is ctx, ended with ErrStopping as its cause when the server stops.
func (s *service) untilStop(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	detach := context.AfterFunc(s.stopping, func() { cancel(ErrStopping) })
	return ctx, func() { detach(); cancel(nil) }
}

// StreamBatches implements RolloutService.
func (s *service) StreamBatches(req *pb.StreamBatchesRequest, stream grpc.ServerStreamingServer[pb.BatchChunk]) error {
	ctx, cancel := s.untilStop(stream.Context())
	defer cancel()
	err := s.stream(ctx, req, stream)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func (s *service) stream(ctx context.Context, req *pb.StreamBatchesRequest, stream grpc.ServerStreamingServer[pb.BatchChunk]) error {
	seq, err := s.start(ctx, req)
	if err != nil {
		return err
	}
	for offset := req.GetOffset(); ; seq, offset = seq+1, 0 {
		batch, ok, err := s.source.Batches.Next(ctx, seq)
		if err != nil {
			return fmt.Errorf("batch %d: %w", seq, err)
		}
		if !ok {
			return s.endAt(ctx, req, seq)
		}
		if offset > batch.Size {
			return fmt.Errorf("%w: offset %d is past the %d bytes of batch %d", ErrInvalid, offset, batch.Size, seq)
		}
		if err := s.send(ctx, batch, offset, stream); err != nil {
			return fmt.Errorf("batch %d: object %s: %w", seq, batch.Object, err)
		}
	}
}

// start is the sequence number of the first batch to send.
func (s *service) start(ctx context.Context, req *pb.StreamBatchesRequest) (int64, error) {
	cursor, err := cursorName(req.GetCursor())
	if err != nil {
		return 0, err
	}
	from := req.GetFromSequence()
	if from < 0 || req.GetOffset() < 0 || from == 0 && req.GetOffset() > 0 {
		return 0, fmt.Errorf("%w: from_sequence %d with offset %d", ErrInvalid, from, req.GetOffset())
	}
	acknowledged, err := s.source.Cursors.Acknowledged(ctx, cursor)
	if err != nil {
		return 0, fmt.Errorf("cursor %s: %w", cursor, err)
	}
	switch {
	case from == 0:
		return acknowledged + 1, nil
	case from <= acknowledged:
		return 0, fmt.Errorf("%w: batch %d; cursor %s stands at %d", ErrAcknowledged, from, cursor, acknowledged)
	}
	return from, nil
}

// endAt ends a stream of a complete run: cleanly after the last batch, with an error for a client that
// asks for batches which will never exist.
func (s *service) endAt(ctx context.Context, req *pb.StreamBatchesRequest, seq int64) error {
	last, err := s.source.Batches.Last(ctx)
	if err != nil {
		return fmt.Errorf("last batch: %w", err)
	}
	if seq > last+1 || seq == req.GetFromSequence() && req.GetOffset() > 0 {
		return fmt.Errorf("%w: %d; the run is complete with batch %d", ErrNoBatch, seq, last)
	}
	return nil
}

// send sends a batch from offset in chunks; the last one is empty when the client has all bytes.
func (s *service) send(ctx context.Context, b Batch, offset int64, stream grpc.ServerStreamingServer[pb.BatchChunk]) error {
	object, err := s.source.Objects.ReadRange(ctx, b.Object, offset, b.Size-offset)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrStorage, err)
	}
	defer object.Close()
	info := info(b)
	for last := false; !last; info = nil {
		if err := ctx.Err(); err != nil {
			return err
		}
		// A sent message belongs to gRPC, so that every chunk has its own bytes.
		data := make([]byte, min(chunkSize, b.Size-offset))
		if _, err := io.ReadFull(object, data); err != nil {
			return readError(err, b)
		}
		last = offset+int64(len(data)) == b.Size
		chunk := &pb.BatchChunk{Sequence: b.Sequence, Offset: offset, Data: data, Info: info, Last: last}
		if err := stream.Send(chunk); err != nil {
			return err
		}
		offset += int64(len(data))
	}
	return nil
}

// readError tells an object that is too short from storage that does not answer.
func readError(err error, b Batch) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: it ends before byte %d", ErrDamaged, b.Size)
	}
	return fmt.Errorf("%w: %w", ErrStorage, err)
}

func info(b Batch) *pb.BatchInfo {
	return &pb.BatchInfo{
		Sequence: b.Sequence, Object: clean(b.Object), Size: b.Size, Sha256: clean(b.SHA256),
		Groups: int32(b.Groups), Rollouts: int32(b.Rollouts), Rows: int32(b.Rows),
		PolicyVersionMin: b.PolicyVersionMin, PolicyVersionMax: b.PolicyVersionMax, Epoch: b.Epoch,
	}
}

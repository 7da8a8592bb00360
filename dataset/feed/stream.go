package feed

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"

	pb "github.com/verigraph/verigraph/proto/verigraph/v1"
)

// chunkSize is well under gRPC's default message limit of 4 MiB, so that a client with default settings
// reads a batch of any size; measured throughput is flat from 256 KiB to 1 MiB.
const chunkSize = 512 << 10

// service implements RolloutService. Its context ends when the server stops.
type service struct {
	pb.UnimplementedRolloutServiceServer
	source      Source
	stopping    context.Context
	sendTimeout time.Duration
	sending     sync.WaitGroup
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
	kind, err := kindOf(req.GetKind())
	if err != nil {
		return err
	}
	for offset := req.GetOffset(); ; offset = 0 {
		batch, ok, err := s.source.Batches.Next(ctx, seq, kind)
		if err != nil {
			return fmt.Errorf("batch %d: %w", seq, err)
		}
		if !ok {
			return s.endAt(ctx, req, seq)
		}
		if offset > 0 && batch.Sequence != seq {
			return fmt.Errorf("%w: batch %d was taken back, or is of another kind", ErrNoBatch, seq)
		}
		if offset > batch.Size {
			return fmt.Errorf("%w: offset %d is past the %d bytes of batch %d", ErrInvalid, offset, batch.Size, seq)
		}
		if err := s.send(ctx, batch, offset, stream); err != nil {
			return fmt.Errorf("batch %d: object %s: %w", batch.Sequence, batch.Object, err)
		}
		seq = batch.Sequence + 1
	}
}

func kindOf(k pb.BatchKind) (Kind, error) {
	switch k {
	case pb.BatchKind_BATCH_KIND_UNSPECIFIED, pb.BatchKind_BATCH_KIND_TRAIN:
		return Train, nil
	case pb.BatchKind_BATCH_KIND_VALIDATE:
		return Validate, nil
	case pb.BatchKind_BATCH_KIND_ALL:
		return All, nil
	}
	return 0, fmt.Errorf("%w: kind %d", ErrInvalid, k)
}

// start is the sequence number of the first batch to send.
func (s *service) start(ctx context.Context, req *pb.StreamBatchesRequest) (int64, error) {
	cursor, err := cursorName(req.GetCursor())
	if err != nil {
		return 0, err
	}
	from := req.GetFromSequence()
	if from < 0 || req.GetOffset() < 0 || from == 0 && req.GetOffset() > 0 || from > 0 && req.FromStep != nil {
		return 0, fmt.Errorf("%w: from_sequence %d with offset %d", ErrInvalid, from, req.GetOffset())
	}
	at, err := s.source.Cursors.Position(ctx, cursor)
	if err != nil {
		return 0, fmt.Errorf("cursor %s: %w", cursor, err)
	}
	freed, err := s.source.Batches.Freed(ctx)
	if err != nil {
		return 0, fmt.Errorf("freed batches: %w", err)
	}
	if req.FromStep != nil {
		base, err := at.At(req.GetFromStep())
		if err != nil {
			return 0, err
		}
		if base != at.Acknowledged {
			return 0, fmt.Errorf("%w: step %d holds batches up to %d, cursor %s stands at %d; call Restore",
				ErrNotStanding, req.GetFromStep(), base, cursor, at.Acknowledged)
		}
	}
	switch {
	case from > 0 && from <= at.Acknowledged:
		return 0, fmt.Errorf("%w: batch %d; cursor %s stands at %d", ErrAcknowledged, from, cursor, at.Acknowledged)
	case from == 0:
		from = at.Acknowledged + 1
	}
	if from <= freed && req.GetKind() != pb.BatchKind_BATCH_KIND_VALIDATE {
		return 0, fmt.Errorf("%w: %d; a commit freed the batches up to %d", ErrNoBatch, from, freed)
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
	info := info(b)
	return s.chunks(ctx, b.Object, b.Size, offset, func(data []byte, offset int64, last bool) error {
		chunk := &pb.BatchChunk{
			Sequence: b.Sequence, Offset: offset, Data: data, Info: info, Last: last, Crc32: crc32.ChecksumIEEE(data),
		}
		info = nil
		return stream.Send(chunk)
	})
}

// chunks reads an object from offset and hands it on piece by piece. The last piece is empty when offset is
// the object's end.
func (s *service) chunks(ctx context.Context, name string, size, offset int64, send func(data []byte, offset int64, last bool) error) error {
	object, err := s.source.Objects.ReadRange(ctx, name, offset, size-offset)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrStorage, err)
	}
	defer object.Close()
	for last := false; !last; {
		if err := ctx.Err(); err != nil {
			return err
		}
		// A sent message belongs to gRPC, so that every chunk has its own bytes.
		data := make([]byte, min(chunkSize, size-offset))
		if _, err := io.ReadFull(object, data); err != nil {
			return readError(err, size)
		}
		last = offset+int64(len(data)) == size
		if err := s.within(ctx, func() error { return send(data, offset, last) }); err != nil {
			return err
		}
		offset += int64(len(data))
	}
	return nil
}

// within bounds one send: a reader that takes nothing is dropped. The send that is left behind ends with its
// stream, right after the handler has returned; Serve waits for it.
func (s *service) within(ctx context.Context, send func() error) error {
	done := make(chan error, 1)
	s.sending.Go(func() { done <- send() })
	timer := time.NewTimer(s.sendTimeout)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return fmt.Errorf("%w: %s", ErrSlow, s.sendTimeout)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// readError tells an object that is too short from storage that does not answer.
func readError(err error, size int64) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: it ends before byte %d", ErrDamaged, size)
	}
	return fmt.Errorf("%w: %w", ErrStorage, err)
}

func info(b Batch) *pb.BatchInfo {
	return &pb.BatchInfo{
		Sequence: b.Sequence, Object: clean(b.Object), Size: b.Size, Sha256: clean(b.SHA256),
		Groups: int32(b.Groups), Rollouts: int32(b.Rollouts), Rows: int32(b.Rows),
		PolicyVersionMin: b.PolicyVersionMin, PolicyVersionMax: b.PolicyVersionMax, Epoch: b.Epoch,
		Validate: b.Validate, PolicyVersion: b.PolicyVersion,
	}
}

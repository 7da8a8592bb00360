package feed

import (
	"context"
	"errors"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/verigraph/verigraph/blob"
)

// Why a request is refused. A Source may return them too.
var (
	ErrInvalid         = errors.New("invalid request")
	ErrUnauthenticated = errors.New("missing or wrong token")
	ErrNoBatch         = errors.New("no such batch")
	ErrAcknowledged    = errors.New("already acknowledged")
	ErrClosed          = errors.New("takes no more prompts")
	ErrFull            = errors.New("the backlog is full")
	ErrDamaged         = errors.New("the stored object differs from its record")
	ErrStorage         = errors.New("storage")
	ErrStopping        = errors.New("the server is stopping")
	ErrSlow            = errors.New("the reader took nothing for too long")
	ErrIncarnation     = errors.New("an earlier incarnation of the trainer")
	ErrNotLeading      = errors.New("this server does not lead the run")
	ErrNotStanding     = errors.New("the cursor does not stand at this step")
	ErrUnsupported     = errors.New("this run takes no orders from a trainer")
)

// wireCodes is the one table from error to wire code. The first match counts; unknown is Internal.
var wireCodes = []struct {
	err  error
	code codes.Code
}{
	{ErrInvalid, codes.InvalidArgument},
	{ErrUnauthenticated, codes.Unauthenticated},
	{ErrNoBatch, codes.NotFound},
	{ErrAcknowledged, codes.FailedPrecondition},
	{ErrClosed, codes.FailedPrecondition},
	{ErrFull, codes.ResourceExhausted},
	{ErrDamaged, codes.DataLoss},
	{blob.ErrNotFound, codes.DataLoss},
	{ErrIncarnation, codes.FailedPrecondition},
	{ErrNotStanding, codes.FailedPrecondition},
	{ErrUnsupported, codes.Unimplemented},
	{ErrSlow, codes.Unavailable},
	{ErrNotLeading, codes.Unavailable},
	{ErrStopping, codes.Unavailable},
	{ErrStorage, codes.Unavailable}, // also where the broker's answer, not the caller's time, ran out
	{context.DeadlineExceeded, codes.DeadlineExceeded},
	{context.Canceled, codes.Canceled},
}

// toStatus gives an error its wire form.
func toStatus(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	code := codes.Internal
	for _, row := range wireCodes {
		if errors.Is(err, row.err) {
			code = row.code
			break
		}
	}
	return status.Error(code, err.Error())
}

// clean makes text fit for a proto string, which otherwise makes the whole message fail.
func clean(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

package feed

import (
	"context"

	"google.golang.org/grpc"

	"github.com/verigraph/verigraph/internal/grpcserve"
)

// Token is a bearer token that no format verb and no encoder prints.
type Token = grpcserve.Token

// auth asks every call but health checks for the token.
type auth struct{ token Token }

func (a auth) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if !a.token.Allows(ctx, info.FullMethod) {
		return nil, ErrUnauthenticated
	}
	return next(ctx, req)
}

func (a auth) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	if !a.token.Allows(stream.Context(), info.FullMethod) {
		return ErrUnauthenticated
	}
	return next(srv, stream)
}

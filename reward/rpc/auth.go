package rpc

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/verigraph/verigraph/internal/grpcserve"
)

// Token is a bearer token that no format verb and no encoder prints.
type Token = grpcserve.Token

var errToken = status.Error(codes.Unauthenticated, "missing or wrong token")

func (s *Server) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if !s.opts.Token.Allows(ctx, info.FullMethod) {
		return nil, errToken
	}
	resp, err := next(ctx, req)
	return resp, wire(err)
}

func (s *Server) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	if !s.opts.Token.Allows(stream.Context(), info.FullMethod) {
		return errToken
	}
	return wire(next(srv, stream))
}

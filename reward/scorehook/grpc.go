package scorehook

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	pb "github.com/verigraph/verigraph/proto/verigraph/v1"
	"github.com/verigraph/verigraph/reward"
)

type grpcCaller struct {
	conn   *grpc.ClientConn
	client pb.OutcomeScorerClient
}

func newGRPC(target string) (*grpcCaller, error) {
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	return &grpcCaller{conn, pb.NewOutcomeScorerClient(conn)}, nil
}

func (c *grpcCaller) close() error { return c.conn.Close() }

func (c *grpcCaller) call(ctx context.Context, item reward.HookItem) (reward.Grade, bool, error) {
	req := &pb.GradeRequest{
		Prompt: &pb.Prompt{
			Id: item.Prompt.ID, Question: item.Prompt.Question, DataSource: item.Prompt.DataSource, MetaJson: item.Prompt.Meta,
			AnswerText: item.Reference.Text,
		},
		ReferenceMetaJson: item.Reference.Meta, Answer: item.Answer, Evidence: item.Evidence, Termination: string(item.Ending),
	}
	for _, a := range item.Reference.Answers {
		req.Prompt.Answers = append(req.Prompt.Answers, &pb.NamedAnswer{Name: a.Name, Value: a.Value})
	}
	for _, cl := range item.Claims {
		req.Claims = append(req.Claims, &pb.GradeClaim{Id: cl.ID, Kind: cl.Kind, Text: cl.Text, Structural: cl.Structural, Lexical: cl.Lexical})
	}
	resp, err := c.client.Grade(ctx, req)
	if err != nil {
		code := status.Code(err)
		return reward.Grade{}, code == codes.InvalidArgument || code == codes.FailedPrecondition, err
	}
	g := reward.Grade{Correct: resp.Correct, Reason: resp.GetReason()}
	for _, a := range resp.GetAxes() {
		if a.Value == nil {
			return g, true, fmt.Errorf("axis %s has no value", a.GetName())
		}
		g.Axes = append(g.Axes, reward.Axis{Name: a.GetName(), Value: a.GetValue()})
	}
	if resp.Score == nil && len(g.Axes) == 0 {
		return g, true, errors.New("score is missing")
	}
	g.Score = resp.GetScore()
	return g, false, nil
}

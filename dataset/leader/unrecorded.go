package leader

import (
	"context"
	"fmt"

	"go.uber.org/zap"
)

// unrecordedTerms bounds how many terms without a batch are looked through.
const unrecordedTerms = 100

func (l *Leader) objectName(epoch, sequence int64) string {
	return fmt.Sprintf("batches/%s-e%d-%06d.parquet", l.cfg.Run, epoch, sequence)
}

// dropUnrecorded deletes the objects that earlier leaders stored under the number of a batch and did not live to
// record: now that the number is taken no record will name them. Names are tried, since a listing would also show the
// batches of a run of the same name whose logs were lost.
func (l *Leader) dropUnrecorded(ctx context.Context, r BatchRecord) {
	first := max(1, r.Epoch-unrecordedTerms)
	if r.Sequence > 1 {
		first = max(first, read(l, func(b *books) int64 { return b.batches[r.Sequence-2].Epoch }))
	}
	for epoch := first; epoch < r.Epoch; epoch++ {
		name := l.objectName(epoch, r.Sequence)
		if err := l.deps.Objects.Delete(ctx, name); err != nil {
			l.deps.Log.Warn("an object that no record names stays", zap.String("object", name), zap.Error(err))
			return
		}
	}
}

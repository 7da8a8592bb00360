package viewer

import (
	"encoding/json"
	"os"
	"path/filepath"
	"time"
)

// StatusName is the file in which a local run keeps its progress while it goes on.
const StatusName = "status.json"

// Status is a run's progress as its leader sees it.
type Status struct {
	Time     time.Time `json:"time"`
	Run      string    `json:"run"`
	Complete bool      `json:"complete"`
	// Running: the process that writes the status still works.
	Running bool   `json:"running"`
	Prompts int64  `json:"prompts"`
	Backlog int64  `json:"backlog"`
	Groups  int64  `json:"groups"`
	Ledger  Ledger `json:"ledger"`
	// Unaccounted is what the two sides of the ledger differ by.
	Unaccounted         int64            `json:"unaccounted"`
	BatchesWritten      int64            `json:"batches_written"`
	BatchesAcknowledged int64            `json:"batches_acknowledged"`
	PolicyVersion       int64            `json:"policy_version"`
	PolicyPaused        bool             `json:"policy_paused"`
	DeliveredPerSecond  float64          `json:"delivered_per_second"`
	UnscoredShare       float64          `json:"unscored_share"`
	Reasons             map[string]int64 `json:"reasons"`
	// Ages counts batches by their age in policy versions.
	Ages    map[int64]int64 `json:"ages"`
	Waiting []Waiting       `json:"waiting"`
}

// Ledger counts rollouts; see docs/outputs.md.
type Ledger struct {
	Dispatched int64 `json:"dispatched"`
	Delivered  int64 `json:"delivered"`
	Filtered   int64 `json:"filtered"`
	Stale      int64 `json:"stale"`
	Unscored   int64 `json:"unscored"`
	Failed     int64 `json:"failed"`
	SetAside   int64 `json:"set_aside"`
	InFlight   int64 `json:"in_flight"`
}

// Waiting is one kind of thing that waits, how many there are, and what for.
type Waiting struct {
	What   string `json:"what"`
	Count  int64  `json:"count"`
	Reason string `json:"reason"`
}

// WriteStatus replaces the status file of an output directory; a reader never sees half of it.
func WriteStatus(dir string, st Status) error {
	data, err := json.Marshal(st)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, StatusName)
	if err := os.WriteFile(path+".tmp", append(data, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".tmp", path)
}

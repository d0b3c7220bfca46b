package schedulers

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"testing"
)

// recording is what kube-scheduler v1.37.2 did about the Pods of each cluster, by seed and in the
// order of the Pods; `GANTRY_OTHER=PROGRAM GANTRY_RECORD=1 GANTRY_CASES=300` writes it anew.
const recordingFile = "testdata/kube-scheduler.json.gz"

// outcomes are those of the other scheduler, by seed.
type outcomes map[uint64][]outcome

func readRecording() (outcomes, error) {
	f, err := os.Open(recordingFile)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	out := outcomes{}
	return out, errors.Join(json.NewDecoder(z).Decode(&out), z.Close())
}

func (o outcomes) write() error {
	if err := os.MkdirAll("testdata", 0o755); err != nil {
		return err
	}
	f, err := os.Create(recordingFile)
	if err != nil {
		return err
	}
	z, _ := gzip.NewWriterLevel(f, gzip.BestCompression) // the level is a valid one
	return errors.Join(json.NewEncoder(z).Encode(o), z.Close(), f.Close())
}

// liveCases is how many of the recorded clusters TestAsRecorded sets up by itself: each takes
// most of a second, and TestDecisionsAsRecorded decides about all of them.
const liveCases = 60

// TestAsRecorded has Gantry's scheduler schedule the Pods of random clusters over an API server and
// compares what it does with what kube-scheduler did: the node or the refusal word for word, the
// victims, the volumes and each plugin's score for each node. GANTRY_CASES=300 takes all clusters.
func TestAsRecorded(t *testing.T) {
	if os.Getenv("GANTRY_MUTANT_REACHED") != "" {
		t.Skip("random mutations are in the test's own program, and this runs another")
	}
	recorded, err := readRecording()
	if errors.Is(err, fs.ErrNotExist) || err != nil {
		t.Fatalf("%v: record it with GANTRY_RECORD=1", err)
	}
	first, cases := number(t, "GANTRY_SEED", 1), number(t, "GANTRY_CASES", liveCases)
	b := start(t, "")
	b.recorded = recorded
	for seed := first; seed < first+cases; seed++ {
		if len(recorded[seed]) < podsPerCluster {
			t.Fatalf("seed %d: got %d recorded Pods, want %d: record them", seed, len(recorded[seed]), podsPerCluster)
		}
	}
	b.run(t, first, cases)
}

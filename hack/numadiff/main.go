// Command numadiff records what upstream's CPU, memory and topology managers v1.37.2, and with
// -devices its device manager, answer in random scenarios, for tests of the product to replay.
//
//	cd hack/numadiff && go run . -n 1500 -o /tmp/upstream.json.gz  # to containermanager/testdata
//	go build -o /tmp/numadiff . && unshare -m sh -c 'mkdir -p /var/lib/kubelet && mount -t tmpfs
//
//	none \
//		  /var/lib/kubelet && /tmp/numadiff -devices -n 1500 -o /tmp/devices.json.gz'
//		                                                               # to
//
// devicemanager/manager/testdata
package main

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/gantry-project/gantry/test/numascenario"
)

func main() {
	n := flag.Int64("n", 1500, "scenarios")
	out := flag.String("o", "upstream.json.gz", "file of the answers")
	first := flag.Int64("seed", 1, "of the first scenario")
	checkpoints := flag.String("checkpoints", "",
		"directory for the checkpoints of the first scenario, instead of answers")
	devices := flag.Bool("devices", false, "ask the device manager")
	flag.Parse()
	if *devices {
		if err := recordDevices(uint64(*first), uint64(*n), *out); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if *checkpoints != "" {
		if err := writeCheckpoints(*first, *checkpoints); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if err := record(*first, *n, *out); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func record(first, n int64, out string) error {
	f, err := os.Create(out)
	if err != nil {
		return err
	}
	defer f.Close()
	zip, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	if err != nil {
		return err
	}
	enc := json.NewEncoder(zip)
	hung := 0
	for seed := first; seed < first+n; seed++ {
		s := numascenario.Random(seed)
		done := make(chan error, 1)
		go func() { done <- answer(context.Background(), &s) }()
		select {
		case err := <-done:
			if err != nil {
				return fmt.Errorf("seed %d: %w", seed, err)
			}
			if err := enc.Encode(numascenario.Recorded{Seed: seed, Answers: s.Answers()}); err != nil {
				return err
			}
		case <-time.After(10 * time.Second):
			hung++
			fmt.Fprintf(os.Stderr, "seed %d: upstream does not come back\n", seed)
		}
	}
	fmt.Fprintf(os.Stderr, "%d scenarios, %d without an answer\n", n, hung)
	return zip.Close()
}

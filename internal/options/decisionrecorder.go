package options

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/scheduler/replay"
)

// DecisionRecorder is where the scheduler's decisions are written down.
type DecisionRecorder struct {
	flag  string // with dashes
	path  string
	limit string

	mu        sync.Mutex
	file      *os.File // nil: closed, or the limit was reached
	bytesLeft int64    // bytes
}

// Flags adds the flag name, and name-limit.
func (r *DecisionRecorder) Flags(f *pflag.FlagSet, name string) {
	r.flag = "--" + name
	f.StringVar(&r.path, name, "",
		"file to append every decision of the scheduler to, with all it was made from, for \"gantry scheduler "+
			"replay\"; holds nodes and Pods whole, and costs time on each cycle")
	f.StringVar(&r.limit, name+"-limit", "64Mi", "size of that file at which recording stops")
}

// OpenFile opens the file; it gives nil when none is wanted. What is in the file stays and counts.
func (r *DecisionRecorder) OpenFile() (func(*replay.Decision), error) {
	if r.path == "" {
		return nil, nil
	}
	limit, err := resource.ParseQuantity(r.limit)
	if err != nil || limit.Value() <= 0 {
		return nil, cli.UsageError(fmt.Errorf("%s-limit %q: must be a size above zero, like 64Mi", r.flag, r.limit))
	}
	if r.file, err = os.OpenFile(r.path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600); err != nil {
		return nil, cli.WithFix(fmt.Errorf("%s: %w", r.flag, err),
			"name a file in a directory that exists and can be written to")
	}
	size, err := r.file.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.flag, errors.Join(err, r.close()))
	}
	r.bytesLeft = limit.Value() - size
	last := make([]byte, 1)
	// cut off by a crash: the damage stays in its line
	if _, err := r.file.ReadAt(last, size-1); size > 0 && err == nil && last[0] != '\n' {
		r.write([]byte("\n"))
	}
	return r.record, nil
}

// record writes a decision down, or stops for good when it does not fit or cannot be written.
func (r *DecisionRecorder) record(d *replay.Decision) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil {
		return
	}
	line, err := d.Line()
	if err != nil {
		klog.Background().Error(err, "A decision is not recorded")
		return
	}
	r.write(line)
}

func (r *DecisionRecorder) write(line []byte) {
	stop := func(why string, err error) {
		klog.Background().Info("Recording of decisions stopped: "+why, "file", r.path, "limit", r.limit,
			"err", errors.Join(err, r.close()))
	}
	if r.bytesLeft -= int64(len(line)); r.bytesLeft < 0 {
		stop("the next one would pass the limit ("+r.flag+"-limit)", nil)
		return
	}
	if _, err := r.file.Write(line); err != nil {
		stop("writing failed", err)
	}
}

// close is what open needs to be undone; it may be called twice.
func (r *DecisionRecorder) close() error {
	if r.file == nil {
		return nil
	}
	err := r.file.Close()
	r.file = nil
	return err
}

func (r *DecisionRecorder) Stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.close(); err != nil {
		klog.Background().Error(err, "Closing the recorded decisions", "file", r.path)
	}
}

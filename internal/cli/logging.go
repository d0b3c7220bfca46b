package cli

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
)

// Logging is where the components' log goes and how much of it.
type Logging struct {
	verbosity int
	toStderr  bool
}

func (l *Logging) Flags(f *pflag.FlagSet) {
	f.IntVarP(&l.verbosity, "v", "v", 1, "log verbosity; 4 shows the scheduler's scores")
	f.BoolVar(&l.toStderr, "logtostderr", false, "log to standard error instead of DATA-DIR/gantry.log")
}

// Open starts logging; the returned function flushes and closes.
func (l *Logging) Open(dataDir string) (func(), error) {
	fs := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(fs)
	for k, v := range map[string]string{"v": fmt.Sprint(l.verbosity), "logtostderr": fmt.Sprint(l.toStderr),
		"stderrthreshold": "FATAL", "alsologtostderr": "false",
		"one_output": "true", // else klog writes each line once per severity at and below its own, all to the one file
	} {
		if err := fs.Set(k, v); err != nil {
			return nil, err
		}
	}
	if l.toStderr {
		return klog.Flush, nil
	}
	path := filepath.Join(dataDir, "gantry.log")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, WithFix(fmt.Errorf("log file: %w", err), "make %s writable, or log with --logtostderr", dataDir)
	}
	klog.SetOutput(io.Writer(f))
	return func() { klog.Flush(); _ = f.Close() }, nil
}

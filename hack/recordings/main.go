// Command recordings replays requests that were recorded against upstream Kubernetes
// (test/recordings) against Gantry and prints, per area, the share of equal answers.
//
//	recordings api            API requests, against an API server in this process
//	recordings pods           life cycles of Pods, against `gantry up` (root)
//	recordings docs           docs/compatibility/differences.md from the last run of both
//	recordings -kube-apiserver PROGRAM -etcd PROGRAM api
//	                          the same requests to a kube-apiserver: what it answers otherwise
//	                          than was recorded goes to hack/recordings/newer.json
//
// Every difference of every unequal case goes to build/recordings-{api,pods}.txt.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"

	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/test/replay"
)

// options are the flags.
type options struct {
	recordings string
	only       *regexp.Regexp
	verbose    bool
	out        string
	tables     string
	binary     string
	binDir     string
	kubeconfig string
	other      referenceProgram
	parallel   int
	number     int
	again      bool
}

func main() {
	o, only := options{}, ""
	flag.StringVar(&o.recordings, "recordings", "test/recordings", "directory of the recordings")
	flag.StringVar(&only, "run", "", "regular expression of the cases to replay, as area/name")
	flag.BoolVar(&o.verbose, "v", false, "print the differences too")
	flag.StringVar(&o.out, "o", "build", "directory for the differences")
	flag.StringVar(&o.tables, "tables", "", "also write the table into this file")
	flag.StringVar(&o.binary, "gantry", "build/bin/gantry", "gantry under test (pods)")
	flag.StringVar(&o.binDir, "bin-dir", "", "directory of runc, shim and CNI plugin (pods; default: where gantry is)")
	flag.StringVar(&o.kubeconfig, "kubeconfig", "", "use this cluster instead of starting one (pods)")
	flag.StringVar(&o.other.server, "kube-apiserver", "",
		"ask this program instead of Gantry, in the version that Gantry implements (api)")
	flag.StringVar(&o.other.etcd, "etcd", "", "its etcd")
	flag.IntVar(&o.parallel, "parallel", 10, "cases at once (pods)")
	flag.BoolVar(&o.again, "again", true,
		"live cases that differ a second time, fewer at once; the second time counts (pods)")
	flag.IntVar(&o.number, "number", 1,
		"first of two numbers that tell this run's bridges and networks from other runs' on the machine (pods)")
	flag.Parse()
	var err error
	if o.only, err = regexp.Compile(only); err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		err = run(ctx, o, flag.Arg(0))
		stop()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "recordings:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options, what string) error {
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	if what == "docs" {
		return o.writeDocs("docs/compatibility/differences.md")
	}
	log, err := os.Create(filepath.Join(o.out, "recordings-"+what+".log"))
	if err != nil {
		return err
	}
	defer log.Close()
	discardLogs(log)
	var report *replay.Report
	switch what {
	case "api":
		report, err = runAPI(ctx, o)
	case "pods":
		report, err = runPods(ctx, o, log)
	default:
		return fmt.Errorf("say what to replay: api or pods; or docs")
	}
	if err != nil {
		return err
	}
	if o.only.String() != "" { // a partial run is not written
		return o.show(report, what)
	}
	path := o.reportPath(what)
	if o.other.server != "" {
		path = "hack/recordings/newer.json"
	}
	if err := save(report, path); err != nil {
		return err
	}
	return o.show(report, what)
}

// discardLogs sends the components' log to a file.
func discardLogs(w io.Writer) {
	fs := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(fs)
	for k, v := range map[string]string{"logtostderr": "false", "alsologtostderr": "false",
		"stderrthreshold": "FATAL"} {
		_ = fs.Set(k, v) // these flags exist
	}
	klog.SetOutput(w)
}

func (o options) show(r *replay.Report, what string) error {
	r.WriteTable(os.Stdout)
	path := filepath.Join(o.out, "recordings-"+what+".txt")
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	r.WriteDetails(f)
	if o.verbose {
		r.WriteDetails(os.Stdout)
	}
	fmt.Printf("\ndifferences: %s\n", path)
	if o.tables == "" {
		return nil
	}
	t, err := os.Create(o.tables)
	if err != nil {
		return err
	}
	defer t.Close()
	r.WriteTable(t)
	return nil
}

// Command apidiff sends the same requests to Gantry and to a kube-apiserver and prints where the
// answers differ, grouped by cause.
//
//	apidiff -ours GANTRY.kubeconfig -theirs UPSTREAM.kubeconfig [-run REGEXP] [-cases N] [-seed N]
//	        [-faults N] [-table] [script | create | update | status | selectors | puts]…
//	apidiff -theirs UPSTREAM.kubeconfig -record test/replay/kinds/testdata record
//	apidiff -theirs UPSTREAM.kubeconfig -record test/replay/kinds/testdata recordwide
//
// create, update and status change one field at a time of an object of each kind (seeds.yaml) to
// what the field's schema allows and to what it does not; they are dry runs. selectors sends field
// selectors of every kind, puts writes objects that are not there or without a version. script
// sends the requests of scripts/*.yaml in order, which also write. Both servers should be new, of
// the same version and without controllers beside them: what is written stays in the namespaces
// diff*. Who asks must be in system:masters; other users are impersonated. record writes the
// answers of a kube-apiserver without admission plugins to a directory, for `go test` of
// test/replay/kinds. recordwide adds what those answers do not show yet: it asks all changes of all
// objects, bounds of numbers, lengths and lists, pairs of neighbours and the subresources that are
// updated, and keeps the first request of each new finding, warning or change, and both sides of
// each bound.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// options are the flags.
type options struct {
	only     *regexp.Regexp
	cases    int
	seed     uint64
	parallel int
	examples int
	faults   int
	table    bool
	record   string
	seeds    string
	scripts  string
}

func main() {
	o, ours, theirs, only := options{}, "", "", ""
	flag.StringVar(&ours, "ours", "", "kubeconfig of Gantry")
	flag.StringVar(&theirs, "theirs", "", "kubeconfig of the kube-apiserver to compare with")
	flag.StringVar(&only, "run", "", "regular expression of the kinds or scripts to try")
	flag.IntVar(&o.cases, "cases", 1500, "changes per kind, drawn from all by the seed")
	flag.Uint64Var(&o.seed, "seed", 1, "what to draw them by")
	flag.IntVar(&o.parallel, "parallel", 8, "requests at once")
	flag.IntVar(&o.examples, "examples", 1, "examples per cause to print")
	flag.IntVar(&o.faults, "faults", 1, "most changes made to one object at once, at random")
	flag.BoolVar(&o.table, "table", false,
		"ask for the answers of create, update and status as tables, as kubectl get does")
	flag.StringVar(&o.seeds, "seeds", "", "file of further objects to change, one a line")
	flag.StringVar(&o.scripts, "scripts", "", "directory of other scripts than scripts/*.yaml")
	flag.StringVar(&o.record, "record", "",
		"file to add the requests to that were answered otherwise, with the answers of theirs")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := func() (err error) {
		if o.only, err = regexp.Compile(only); err != nil {
			return err
		}
		p := &pair{}
		if p.reference, err = dial(theirs); err != nil {
			return err
		}
		if p.gantry = p.reference; ours != "" { // record asks the reference alone
			if p.gantry, err = dial(ours); err != nil {
				return err
			}
		}
		return run(ctx, o, p, flag.Args())
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, "apidiff:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options, p *pair, what []string) error {
	if len(what) == 0 {
		what = []string{"create", "update", "status", "script"}
	}
	found := &findings{}
	m, err := newMutator(ctx, o, p)
	if err != nil {
		return err
	}
	for _, w := range what {
		switch w {
		case "create", "update", "status":
			err = m.run(ctx, w, found)
		case "script":
			err = runScripts(ctx, o, p, found)
		case "selectors":
			err = m.runSelectors(ctx, found)
		case "puts":
			err = m.runPuts(ctx, found)
		case "record":
			return m.record(ctx, o.record)
		case "recordwide":
			return m.recordWide(ctx, o.record)
		default:
			err = fmt.Errorf("%q is none of create, update, status, script, selectors, puts, record, recordwide", w)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "apidiff:", err)
			break
		}
	}
	found.print(os.Stdout, o.examples)
	if o.record != "" {
		return found.write(o.record)
	}
	return nil
}

// server is one of the two.
type server struct {
	url    string
	client *http.Client
}

// pair are the servers whose answers should be equal.
type pair struct{ gantry, reference *server }

func dial(kubeconfig string) (*server, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	cfg.Timeout = time.Minute
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, err
	}
	return &server{strings.TrimSuffix(cfg.Host, "/"), client}, nil
}

// request is sent to both servers.
type request struct {
	Method  string
	Path    string
	Headers map[string]string
	Body    string
}

// answer is the response of one server.
type answer struct {
	code    int
	headers http.Header
	body    []byte
}

func (s *server) send(ctx context.Context, r request) (answer, error) {
	var body io.Reader
	if r.Body != "" {
		body = strings.NewReader(r.Body)
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, s.url+r.Path, body)
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "apidiff/1.0")
	if r.Body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for k, v := range r.Headers {
		req.Header.Set(k, v)
	}
	res, err := s.client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	a := answer{code: res.StatusCode, headers: res.Header}
	a.body, err = io.ReadAll(res.Body)
	return a, err
}

// both sends a request to both servers at once.
func (p *pair) both(ctx context.Context, r request) (ours, theirs answer, err error) {
	done := make(chan error, 1)
	go func() {
		var err error
		theirs, err = p.reference.send(ctx, r)
		done <- err
	}()
	ours, err = p.gantry.send(ctx, r)
	if other := <-done; err == nil {
		err = other
	}
	return ours, theirs, err
}

package server_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/httpstream" //nolint:staticcheck // the type that client-go's port forwarder takes
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	utilexec "k8s.io/client-go/util/exec"

	"github.com/gantry-project/gantry/test/expect"
)

var discard = remotecommand.StreamOptions{Stdout: io.Discard}

// protocols are the two ways clients stream.
var protocols = map[string]func(w *testServer, u *url.URL) (remotecommand.Executor, error){
	"spdy": func(w *testServer, u *url.URL) (remotecommand.Executor, error) {
		return remotecommand.NewSPDYExecutor(w.config, http.MethodPost, u)
	},
	"websocket v5": func(w *testServer, u *url.URL) (remotecommand.Executor, error) {
		return remotecommand.NewWebSocketExecutor(w.config, http.MethodGet, u.String())
	},
}

func (w *testServer) stream(protocol, path string, o remotecommand.StreamOptions) error {
	w.Helper()
	u, err := url.Parse(w.url + path)
	if err != nil {
		w.Fatal(err)
	}
	e, err := protocols[protocol](w, u)
	if err != nil {
		w.Fatal(err)
	}
	return e.StreamWithContext(w.Context(), o)
}

// row: KAP-06
// row: CRI-03
func TestExec(t *testing.T) {
	w := newTestServer(t)
	w.run("web", map[string]string{"app": "run"})
	for protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			w := w.forSubtest(t)
			var out, errOut bytes.Buffer
			err := w.stream(protocol,
				"/exec/default/web/app?input=1&output=1&error=1&command=sh&command=-c&command=cat%3B+echo+err+%3E%262",
				remotecommand.StreamOptions{Stdin: strings.NewReader("typed\n"), Stdout: &out, Stderr: &errOut})
			if err != nil || out.String() != "typed\n" || errOut.String() != "err\n" {
				t.Errorf("stdout %q stderr %q error %v", out.String(), errOut.String(), err)
			}
			err = w.stream(protocol, "/exec/default/web/web-uid/app?output=1&command=sh&command=-c&command=exit+7",
				remotecommand.StreamOptions{Stdout: &out})
			var code utilexec.CodeExitError
			if !errors.As(err, &code) || code.Code != 7 {
				t.Errorf("exit code is lost: %v", err)
			}
		})
	}
}

// What goes in comes out whole, and the end of the input reaches the command while its output goes
// on.
//
// row: KAP-06
func TestExecMovesMuch(t *testing.T) {
	w := newTestServer(t)
	w.run("web", map[string]string{"app": "run"})
	much := strings.Repeat("0123456789abcdef\n", 1<<17)
	for protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			w := w.forSubtest(t)
			var out bytes.Buffer
			err := w.stream(protocol,
				"/exec/default/web/app?input=1&output=1&command=sh&command=-c&command=cat%3B+echo+end",
				remotecommand.StreamOptions{Stdin: strings.NewReader(much), Stdout: &out})
			if err != nil || out.String() != much+"end\n" {
				t.Errorf("%d of %d bytes, %v", out.Len(), len(much)+4, err)
			}
		})
	}
}

// The older WebSocket protocol, which has no end of input, is passed through to the runtime.
//
// row: KAP-06
func TestExecOverWebSocketVersion4(t *testing.T) {
	w := newTestServer(t)
	w.run("web", map[string]string{"app": "run"})
	e, err := remotecommand.NewWebSocketExecutorForProtocols(w.config, http.MethodGet,
		w.url+"/exec/default/web/app?output=1&error=1&command=sh&command=-c&command="+
			"echo+out%3B+echo+err+%3E%262%3B+exit+3",
		"v4.channel.k8s.io")
	if err != nil {
		t.Fatal(err)
	}
	var out, errOut bytes.Buffer
	err = e.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: &out, Stderr: &errOut})
	var code utilexec.CodeExitError
	if !errors.As(err, &code) || code.Code != 3 || out.String() != "out\n" || errOut.String() != "err\n" {
		t.Errorf("got %q %q %v, want an error that is a code, Code 3, out out and errOut err", out.String(),
			errOut.String(), err)
	}
}

// row: KAP-06
func TestExecWithTerminal(t *testing.T) {
	w := newTestServer(t)
	w.run("web", map[string]string{"app": "run"})
	var out bytes.Buffer
	if err := w.stream("spdy", "/exec/default/web/app?input=1&output=1&tty=1&command=cat",
		remotecommand.StreamOptions{Stdin: strings.NewReader("x\n"), Stdout: &out, Tty: true}); err != nil {
		t.Fatal(err)
	}
	if out.String() != "x\n" {
		t.Errorf("got %q, want %q", out.String(), "x\n")
	}
}

// oneSize gives the size of a terminal once.
type oneSize struct{ given bool }

func (q *oneSize) Next() *remotecommand.TerminalSize {
	if q.given {
		return nil
	}
	q.given = true
	return &remotecommand.TerminalSize{Width: 132, Height: 43}
}

// A command on a terminal gets the size of the client's, whichever protocol the client speaks.
//
// row: KAP-06
func TestExecResizesTheTerminal(t *testing.T) {
	w := newTestServer(t)
	w.run("web", map[string]string{"app": "run"})
	for protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			w := w.forSubtest(t)
			ctx, cancel := context.WithTimeout(t.Context(), expect.Patience(20*time.Second))
			defer cancel()
			u, err := url.Parse(w.url + "/exec/default/web/app?input=1&output=1&tty=1&command=stty&command=size")
			if err != nil {
				t.Fatal(err)
			}
			e, err := protocols[protocol](w, u)
			if err != nil {
				t.Fatal(err)
			}
			var out expect.Buffer
			err = e.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: strings.NewReader(""), Stdout: &out,
				Tty: true, TerminalSizeQueue: &oneSize{}})
			if got := out.String(); err != nil || got != "43 132\n" {
				t.Errorf("stty size: got %q (%v), want 43 132", got, err)
			}
		})
	}
}

// row: KAP-08
// row: CRI-03
func TestAttach(t *testing.T) {
	w := newTestServer(t)
	for protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			w := w.forSubtest(t)
			pod := "cat-" + strings.ReplaceAll(protocol, " ", "-")
			w.run(pod, map[string]string{"app": `while read line; do echo "got $line"; done`})
			in, typed := io.Pipe()
			var out expect.Buffer
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			done := make(chan error, 1)
			u, _ := url.Parse(w.url + "/attach/default/" + pod + "/app?input=1&output=1&error=1")
			e, err := protocols[protocol](w, u)
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				done <- e.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: in, Stdout: &out,
					Stderr: io.Discard})
			}()
			go fmt.Fprintln(typed, "one") // it waits for somebody to read it
			w.eventually("the line comes back", func() bool {
				select {
				case err := <-done:
					t.Fatalf("the stream ended with %v before the line came back", err)
				default:
				}
				return strings.Contains(out.String(), "got one")
			})
			cancel()
			_ = typed.Close()
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Errorf("a client that leaves ends with %v", err)
			}
		})
	}
}

// row: KAP-06
func TestStreamRefusals(t *testing.T) {
	w := newTestServer(t)
	w.run("web", map[string]string{"app": "exit 0", "waiting": ""})
	for path, want := range map[string]string{
		"/exec/default/none/app?output=1&command=ls":    "404 pod does not exist",
		"/exec/default/web/waiting?output=1&command=ls": `500 container not found ("waiting")`,
		"/exec/default/web/app?command=ls": "400 you must specify at least 1 of " +
			"stdin, stdout, stderr",
		"/portForward/default/none":                           "404 pod does not exist",
		"/exec/default/web/other-uid/app?output=1&command=ls": "404 pod not found",
		"/portForward/default/web/other-uid":                  "404 pod not found",
	} {
		code, body := w.request(w.config, http.MethodPost, path)
		if got := fmt.Sprintf("%d %s", code, body); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	expect.Eventually(w, "container exits", func() bool { return strings.Contains(w.fake.Dump(), "exited") })
	if code, body := w.request(w.config, http.MethodPost, "/exec/default/web/app?output=1&command=ls"); code != 500 ||
		!strings.Contains(body, "CONTAINER_EXITED") {
		t.Errorf("exec in an exited container: got %d %s, want 500 and it to contain %q", code, body,
			"CONTAINER_EXITED")
	}
	w.run("up", map[string]string{"app": "run"})
	if code, body := w.request(w.config, http.MethodPost, "/exec/default/up/app?output=1&command=ls"); code != 400 &&
		code != 500 || !strings.Contains(body, "pgrade") {
		t.Errorf("a request without upgrade: %d %s", code, body)
	}
}

// row: KAP-06
func TestRun(t *testing.T) {
	w := newTestServer(t)
	w.run("web", map[string]string{"app": "run"})
	if code, body := w.request(w.config, http.MethodPost, "/run/default/web/app?cmd=echo+hello+there"); code != 200 ||
		body != "hello there" {
		t.Errorf(`got %d %q, want code 200 and body "hello there"`, code, body)
	}
}

// row: KAP-07
// row: CRI-03
func TestPortForward(t *testing.T) {
	w := newTestServer(t)
	w.run("web", map[string]string{"app": "httpd 8080 200 hello"})
	u, err := url.Parse(w.url + "/portForward/default/web")
	if err != nil {
		t.Fatal(err)
	}
	transport, upgrader, err := spdy.RoundTripperFor(w.config)
	if err != nil {
		t.Fatal(err)
	}
	overSPDY := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, u)
	tunnelled, err := portforward.NewSPDYOverWebsocketDialer(u, w.config)
	if err != nil {
		t.Fatal(err)
	}
	for name, dial := range map[string]func(*testing.T) *portforward.PortForwarder{
		"spdy":      func(t *testing.T) *portforward.PortForwarder { return forwarder(t, overSPDY) },
		"websocket": func(t *testing.T) *portforward.PortForwarder { return forwarder(t, tunnelled) },
	} {
		t.Run(name, func(t *testing.T) {
			f := dial(t)
			ports, err := f.GetPorts()
			if err != nil {
				t.Fatal(err)
			}
			resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/", ports[0].Local))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if b, _ := io.ReadAll(resp.Body); string(b) != "hello\n" {
				t.Errorf("got %q, want b hello", b)
			}
		})
	}
}

func forwarder(t *testing.T, d httpstream.Dialer) *portforward.PortForwarder {
	t.Helper()
	stop, ready := make(chan struct{}), make(chan struct{})
	f, err := portforward.NewOnAddresses(d, []string{"127.0.0.1"}, []string{"0:8080"}, stop, ready, io.Discard,
		io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- f.ForwardPorts() }()
	t.Cleanup(func() {
		close(stop)
		if err := <-done; err != nil {
			t.Errorf("forwarding that is stopped ends with %v", err)
		}
	})
	select {
	case <-ready:
	case err := <-done:
		done <- err
		t.Fatal(err)
	}
	return f
}

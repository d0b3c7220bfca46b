package server

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	apiproxy "k8s.io/apimachinery/pkg/util/proxy"
	"k8s.io/apiserver/pkg/util/proxy"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/klog/v2"
	"k8s.io/streaming/pkg/httpstream/wsstream"
	utilexec "k8s.io/utils/exec"
)

// streamOptions reads which streams the client wants, as the API server passes them on: input,
// output, error, tty.
func streamOptions(r *http.Request) (proxy.Options, error) {
	is := func(name string) bool { return r.FormValue(name) == "1" || r.FormValue(name) == "true" }
	o := proxy.Options{Stdin: is("input"), Stdout: is("output"), Stderr: is("error"), Tty: is("tty")}
	if o.Tty {
		o.Stderr = false // a terminal has one output
	}
	if !o.Stdin && !o.Stdout && !o.Stderr {
		return o, errors.New("you must specify at least 1 of stdin, stdout, stderr")
	}
	return o, nil
}

func (s *Server) podOf(w http.ResponseWriter, r *http.Request) (*v1.Pod, bool) {
	pod, ok := s.opts.Pods.PodByName(r.PathValue("namespace"), r.PathValue("pod"))
	if !ok {
		http.Error(w, "pod does not exist", http.StatusNotFound)
		return nil, false
	}
	if uid := r.PathValue("uid"); uid != "" && uid != string(pod.UID) {
		http.Error(w, "pod not found", http.StatusNotFound)
		return nil, false
	}
	return pod, true
}

// target is whose streams are asked for, and which of them.
type target struct {
	proxy.Options
	pod       *v1.Pod
	container *runtimeapi.Container
}

// target reads the request; when it cannot be met, it has been answered.
func (s *Server) target(w http.ResponseWriter, r *http.Request) (t target, ok bool) {
	var err error
	if t.Options, err = streamOptions(r); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return t, false
	}
	if t.pod, ok = s.podOf(w, r); !ok {
		return t, false
	}
	if t.container, err = s.container(r.Context(), t.pod, r.PathValue("container")); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return t, false
	}
	return t, true
}

// exec runs a command with streams: the runtime gives a URL, and the client's connection is joined
// to it.
func (s *Server) exec(w http.ResponseWriter, r *http.Request) {
	t, ok := s.target(w, r)
	if !ok {
		return
	}
	answer, err := s.opts.Runtime.Exec(r.Context(), &runtimeapi.ExecRequest{
		ContainerId: t.container.Id, Cmd: r.URL.Query()["command"], Tty: t.Tty, Stdin: t.Stdin, Stdout: t.Stdout,
		Stderr: t.Stderr,
	})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	s.proxyStream(w, r, answer.Url, t.Options)
}

// attach joins the client to the streams of the container's own process.
func (s *Server) attach(w http.ResponseWriter, r *http.Request) {
	t, ok := s.target(w, r)
	if !ok {
		return
	}
	// The process has a terminal or has none, whatever the client asked for.
	if tty, known := terminal(t.pod, t.container.Metadata.GetName()); known {
		if t.Tty = tty; tty {
			t.Stderr = false
		}
	}
	answer, err := s.opts.Runtime.Attach(r.Context(), &runtimeapi.AttachRequest{ContainerId: t.container.Id, Tty: t.Tty,
		Stdin: t.Stdin, Stdout: t.Stdout, Stderr: t.Stderr})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	s.proxyStream(w, r, answer.Url, t.Options)
}

func terminal(pod *v1.Pod, name string) (tty, known bool) {
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for _, c := range list {
			if c.Name == name {
				return c.TTY, true
			}
		}
	}
	for _, c := range pod.Spec.EphemeralContainers {
		if c.Name == name {
			return c.TTY, true
		}
	}
	return false, false
}

// proxyStream connects the upgraded connection of the client to the runtime's streaming server.
// Runtimes speak SPDY and WebSocket up to v4; a client that speaks WebSocket v5 (kubectl's default)
// is translated.
func (s *Server) proxyStream(w http.ResponseWriter, r *http.Request, address string, o proxy.Options) {
	w = s.withIdleTimeout(w)
	u, err := url.Parse(address)
	if err != nil {
		http.Error(w, fmt.Sprintf("the container runtime's streaming URL %q: %v", address, err),
			http.StatusInternalServerError)
		return
	}
	if wsstream.IsWebSocketRequestWithStreamCloseProtocol(r) {
		proxy.NewStreamTranslatorHandler(u, nil, 0, o).ServeHTTP(w, r)
		return
	}
	newUpgradeProxy(u).ServeHTTP(w, r)
}

func newUpgradeProxy(u *url.URL) *apiproxy.UpgradeAwareHandler {
	return apiproxy.NewUpgradeAwareHandler(u, nil, false, true, responder{})
}

// portForward joins the client to ports of the Pod; SPDY inside a WebSocket is unwrapped.
func (s *Server) portForward(w http.ResponseWriter, r *http.Request) {
	pod, ok := s.podOf(w, r)
	if !ok {
		return
	}
	sandbox, err := s.sandbox(r.Context(), pod)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	ports, err := forwardedPorts(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if s.opts.Endpoints.PortForwarded != nil {
		s.opts.Endpoints.PortForwarded(pod)
	}
	answer, err := s.opts.Runtime.PortForward(r.Context(), &runtimeapi.PortForwardRequest{PodSandboxId: sandbox.Id,
		Port: ports})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	u, err := url.Parse(answer.Url)
	if err != nil {
		http.Error(w, fmt.Sprintf("the container runtime's streaming URL %q: %v", answer.Url, err),
			http.StatusInternalServerError)
		return
	}
	w = s.withIdleTimeout(w)
	if wsstream.IsWebSocketRequestWithTunnelingProtocol(r) {
		proxy.NewTunnelingHandler(newUpgradeProxy(u)).ServeHTTP(w, r)
		return
	}
	newUpgradeProxy(u).ServeHTTP(w, r)
}

// forwardedPorts reads ?port=80,443, which clients of the older WebSocket protocol send; SPDY names
// its ports per stream.
func forwardedPorts(r *http.Request) ([]int32, error) {
	var out []int32
	for _, list := range r.URL.Query()["port"] {
		for _, text := range strings.Split(list, ",") {
			n, err := strconv.ParseUint(text, 10, 16)
			if err != nil {
				return nil, fmt.Errorf("unable to parse %q as a port: %w", list, err)
			}
			if n < 1 {
				return nil, fmt.Errorf("port %q must be > 0", list)
			}
			out = append(out, int32(n))
		}
	}
	return out, nil
}

// responder answers when the runtime's streaming server cannot be reached.
type responder struct{}

// Error logs and answers 500.
func (responder) Error(w http.ResponseWriter, r *http.Request, err error) {
	klog.FromContext(r.Context()).Error(err, "Error while proxying request")
	http.Error(w, err.Error(), http.StatusInternalServerError)
}

// run executes a command to its end and answers with its output.
func (s *Server) run(w http.ResponseWriter, r *http.Request) {
	pod, ok := s.podOf(w, r)
	if !ok {
		return
	}
	c, err := s.container(r.Context(), pod, r.PathValue("container"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	out, errOut, err := s.opts.Runtime.ExecSync(r.Context(), c.Id, strings.Split(r.FormValue("cmd"), " "), 0)
	var exit utilexec.CodeExitError
	if err != nil && !errors.As(err, &exit) {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
	}
	_, _ = w.Write(append(out, errOut...))
	if err != nil {
		fmt.Fprintf(w, "\n%v", err)
	}
}

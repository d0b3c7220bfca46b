package pods

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/proxy"
	"k8s.io/apiserver/pkg/registry/rest"
	translator "k8s.io/apiserver/pkg/util/proxy"
	"k8s.io/streaming/pkg/httpstream/wsstream"
)

// streamREST is pods/exec, pods/attach and pods/portforward: the connection is passed through to
// the kubelet. A WebSocket client of the newest protocols is translated to the SPDY that kubelets
// speak.
type streamREST struct {
	noDestroy
	pods     *podStore
	kubelets *kubeletLocator
	verb     string // exec, attach, portForward: the kubelet's path
}

var _ rest.Connecter = &streamREST{}

func (r *streamREST) ConnectMethods() []string { return []string{http.MethodGet, http.MethodPost} }

func (r *streamREST) New() runtime.Object {
	switch r.verb {
	case "exec":
		return &v1.PodExecOptions{}
	case "attach":
		return &v1.PodAttachOptions{}
	}
	return &v1.PodPortForwardOptions{}
}

func (r *streamREST) NewConnectOptions() (runtime.Object, bool, string) { return r.New(), false, "" }

// Connect answers with a handler that joins client and kubelet.
func (r *streamREST) Connect(ctx context.Context, name string, options runtime.Object,
	responder rest.Responder) (http.Handler, error) {
	u, err := r.location(ctx, name, options)
	if err != nil {
		return nil, err
	}
	through := proxy.NewUpgradeAwareHandler(u, kubeletTransport{r.kubelets.Kubelet, u.Hostname()}, false, true,
		proxy.NewErrorResponder(responder))
	switch o := options.(type) {
	case *v1.PodExecOptions:
		return r.translateStream(through, u, translator.Options{Stdin: o.Stdin, Stdout: o.Stdout, Stderr: o.Stderr,
			Tty: o.TTY}), nil
	case *v1.PodAttachOptions:
		return r.translateStream(through, u, translator.Options{Stdin: o.Stdin, Stdout: o.Stdout, Stderr: o.Stderr,
			Tty: o.TTY}), nil
	}
	return translator.NewTranslatingHandler(through, translator.NewTunnelingHandler(through),
		wsstream.IsWebSocketRequestWithTunnelingProtocol), nil
}

func (r *streamREST) translateStream(through http.Handler, u *url.URL, o translator.Options) http.Handler {
	t := translator.NewStreamTranslatorHandler(u, kubeletTransport{r.kubelets.Kubelet, u.Hostname()}, 0, o)
	return translator.NewTranslatingHandler(through, t, wsstream.IsWebSocketRequestWithStreamCloseProtocol)
}

func (r *streamREST) location(ctx context.Context, name string, options runtime.Object) (*url.URL, error) {
	p, err := r.pods.pod(ctx, name)
	if err != nil {
		return nil, err
	}
	path := fmt.Sprintf("/%s/%s/%s", r.verb, p.Namespace, p.Name)
	if c, named := containerOf(options); named {
		c, err := container(p, c)
		if err != nil {
			return nil, err
		}
		path += "/" + c
	}
	if p.Spec.NodeName == "" {
		return nil, errors.NewBadRequest(fmt.Sprintf("pod %s does not have a host assigned", name))
	}
	u, err := r.kubelets.location(ctx, p.Spec.NodeName)
	if err != nil {
		return nil, err
	}
	u.Path, u.RawQuery = path, streamQuery(options).Encode()
	return u, nil
}

func containerOf(options runtime.Object) (name string, has bool) {
	switch o := options.(type) {
	case *v1.PodExecOptions:
		return o.Container, true
	case *v1.PodAttachOptions:
		return o.Container, true
	}
	return "", false
}

// streamQuery writes the options as the kubelet reads them.
func streamQuery(options runtime.Object) url.Values {
	q := url.Values{}
	add := func(name string, on bool) {
		if on {
			q.Add(name, "1")
		}
	}
	switch o := options.(type) {
	case *v1.PodExecOptions:
		add(v1.ExecStdinParam, o.Stdin)
		add(v1.ExecStdoutParam, o.Stdout)
		add(v1.ExecStderrParam, o.Stderr)
		add(v1.ExecTTYParam, o.TTY)
		for _, c := range o.Command {
			q.Add(v1.ExecCommandParam, c)
		}
	case *v1.PodAttachOptions:
		add(v1.ExecStdinParam, o.Stdin)
		add(v1.ExecStdoutParam, o.Stdout)
		add(v1.ExecStderrParam, o.Stderr)
		add(v1.ExecTTYParam, o.TTY)
	case *v1.PodPortForwardOptions:
		if len(o.Ports) > 0 {
			ports := make([]string, len(o.Ports))
			for i, n := range o.Ports {
				ports[i] = strconv.Itoa(int(n))
			}
			q.Add(v1.PortHeader, strings.Join(ports, ","))
		}
	}
	return q
}

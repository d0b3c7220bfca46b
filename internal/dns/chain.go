package dns

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync/atomic"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	_ "github.com/coredns/coredns/plugin/cache" // its directive
	"github.com/coredns/coredns/plugin/forward"
	"github.com/coredns/coredns/plugin/kubernetes"
	miekg "github.com/miekg/dns"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/dns/plan"
)

// cacheStanza keeps upstream's answers for half a minute at most, failures for five seconds.
const cacheStanza = "cache 30 ."

// cacheExcept is cached with nothing kept of zones, whose names change at once. As in CoreDNS's
// usual configuration every query passes it, and is counted there.
func cacheExcept(zones []string) string {
	own := strings.Join(zones, " ")
	return cacheStanza + " {\n  disable success " + own + "\n  disable denial " + own + "\n}"
}

// handlerChain answers by one state of the settings.
type handlerChain struct {
	mux      *dnsserver.Server
	forwards []*forward.Forward
}

// newHandlerChain puts the handlers of settings together: the cluster's names first, then stub
// domains and upstreams, behind caches.
func newHandlerChain(cluster *kubernetes.Kubernetes, s plan.Settings, watch *upstreamMonitor) (*handlerChain, error) {
	c := &handlerChain{}
	last := plugin.Handler(nxdomainHandler{})
	var err error
	if len(s.Upstreams) > 0 {
		if last, err = c.newForwarder(s.Upstreams, watch); err != nil {
			return nil, err
		}
	}
	own := *cluster // the handlers of an older chain may still be at work
	own.Next = last
	first, err := directive("cache", cacheExcept(own.Zones), &own)
	if err != nil {
		return nil, err
	}
	configs := []*dnsserver.Config{zone(".", first)}
	for _, stub := range s.Stubs {
		h, err := c.newForwarder(stub.Servers, watch)
		if err == nil {
			h, err = directive("cache", cacheStanza, h)
		}
		if err != nil {
			return nil, fmt.Errorf("stub domain %s: %w", stub.Zone, err)
		}
		configs = append(configs, zone(stub.Zone, h))
	}
	if c.mux, err = dnsserver.NewServer("dns://:53", configs); err != nil {
		return nil, err
	}
	return c, nil
}

func zone(name string, h plugin.Handler) *dnsserver.Config {
	return &dnsserver.Config{Zone: name, Plugin: []plugin.Plugin{func(plugin.Handler) plugin.Handler { return h }}}
}

// newForwarder makes a forwarder.
func (c *handlerChain) newForwarder(servers []netip.AddrPort, watch *upstreamMonitor) (plugin.Handler, error) {
	h, err := directive("forward", plan.Forwarding(servers), nil)
	if err != nil {
		return nil, err
	}
	f, ok := h.(*forward.Forward)
	if !ok {
		return nil, fmt.Errorf("the forward plugin made a %T", h)
	}
	if err := f.OnStartup(); err != nil {
		return nil, err
	}
	c.forwards = append(c.forwards, f)
	return monitoredForward{f, watch}, nil
}

// directive sets a plugin of CoreDNS up by its stanza, without any server of its own.
func directive(name, stanza string, next plugin.Handler) (plugin.Handler, error) {
	setup, err := caddy.DirectiveAction("dns", name)
	if err != nil {
		return nil, err
	}
	controller := caddy.NewTestController("dns", stanza)
	if err := setup(controller); err != nil {
		return nil, err
	}
	created := dnsserver.GetConfig(controller).Plugin
	if len(created) != 1 {
		return nil, fmt.Errorf("plugin %s made %d handlers, want one", name, len(created))
	}
	return created[0](next), nil
}

// close stops what the chain keeps going.
func (c *handlerChain) close() {
	for _, f := range c.forwards {
		_ = f.OnShutdown() // stops health checks; it has no way to fail
	}
}

// ServeDNS answers one query.
func (c *handlerChain) ServeDNS(w miekg.ResponseWriter, r *miekg.Msg) {
	ctx := context.WithValue(context.Background(), dnsserver.Key{}, c.mux)
	c.mux.ServeDNS(context.WithValue(ctx, dnsserver.LoopKey{}, 0), w, r)
}

// nxdomainHandler is asked when there is no upstream: what the cluster does not know does not
// exist.
type nxdomainHandler struct{}

func (nxdomainHandler) Name() string { return "nowhere" }

func (nxdomainHandler) ServeDNS(_ context.Context, w miekg.ResponseWriter, r *miekg.Msg) (int, error) {
	m := new(miekg.Msg)
	m.SetRcode(r, miekg.RcodeNameError)
	m.RecursionAvailable = true
	return miekg.RcodeNameError, w.WriteMsg(m)
}

// upstreamMonitor tells in the log when upstreams begin and cease to fail.
type upstreamMonitor struct{ failing atomic.Bool }

// monitoredForward passes a forwarder's answers on and its failures to the watch.
type monitoredForward struct {
	*forward.Forward
	monitor *upstreamMonitor
}

func (w monitoredForward) ServeDNS(ctx context.Context, out miekg.ResponseWriter, r *miekg.Msg) (int, error) {
	code, err := w.Forward.ServeDNS(ctx, out, r)
	if failing := err != nil; w.monitor.failing.CompareAndSwap(!failing, failing) {
		if failing {
			klog.Background().Error(err, "Upstream DNS servers do not answer; names outside the cluster fail",
				"name", r.Question[0].Name)
		} else {
			klog.Background().Info("Upstream DNS servers answer again")
		}
	}
	return code, err
}

// clusterNames is CoreDNS's kubernetes plugin over an API server.
func clusterNames(api *rest.Config, domain string) (*kubernetes.Kubernetes, error) {
	c := caddy.NewTestController("dns", plan.Corefile(domain))
	c.Next()
	k, err := kubernetes.ParseStanza(c)
	if err != nil {
		return nil, fmt.Errorf("cluster domain %s: %w", domain, err)
	}
	own := rest.CopyConfig(api)
	own.ContentType, own.QPS, own.UserAgent = "application/vnd.kubernetes.protobuf", -1, "gantry-dns"
	k.ClientConfig = staticClientConfig{own}
	return k, nil
}

// staticClientConfig is a client configuration that is there already.
type staticClientConfig struct{ *rest.Config }

func (g staticClientConfig) ClientConfig() (*rest.Config, error) { return g.Config, nil }
func (g staticClientConfig) RawConfig() (clientcmdapi.Config, error) {
	return clientcmdapi.Config{}, nil
}
func (g staticClientConfig) Namespace() (string, bool, error)     { return "", false, nil }
func (g staticClientConfig) ConfigAccess() clientcmd.ConfigAccess { return nil }

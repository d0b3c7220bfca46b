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
	_ "github.com/coredns/coredns/plugin/cache" // registers its directive
	"github.com/coredns/coredns/plugin/forward"
	"github.com/coredns/coredns/plugin/kubernetes"
	miekg "github.com/miekg/dns"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/dns/plan"
)

// cacheStanza caches upstream's answers for at most 30 seconds, failures for 5 seconds.
const cacheStanza = "cache 30 ."

// cacheExcept is cacheStanza that caches nothing of zones, whose names change at once. As in
// CoreDNS's usual configuration every query passes the cache plugin, which counts it.
func cacheExcept(zones []string) string {
	own := strings.Join(zones, " ")
	return cacheStanza + " {\n  disable success " + own + "\n  disable denial " + own + "\n}"
}

// handlerChain answers queries by one version of the settings.
type handlerChain struct {
	mux      *dnsserver.Server
	forwards []*forward.Forward
}

// newHandlerChain builds the handlers: the cluster's names first, then stub domains and upstreams
// behind caches. The caller closes the chain.
func newHandlerChain(cluster *kubernetes.Kubernetes, s plan.Settings, watch *upstreamMonitor) (*handlerChain, error) {
	c := &handlerChain{}
	last := plugin.Handler(nxdomainHandler{})
	var err error
	if len(s.Upstreams) > 0 {
		if last, err = c.newForwarder(s.Upstreams, watch); err != nil {
			return nil, err
		}
	}
	own := *cluster // handlers of an older chain may still use cluster
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

// newForwarder returns a started forwarder to servers.
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

// directive sets up a CoreDNS plugin from its stanza, without a CoreDNS server.
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

// close stops the chain's background work.
func (c *handlerChain) close() {
	for _, f := range c.forwards {
		_ = f.OnShutdown() // stops health checks; it cannot fail
	}
}

// ServeDNS answers one query.
func (c *handlerChain) ServeDNS(w miekg.ResponseWriter, r *miekg.Msg) {
	ctx := context.WithValue(context.Background(), dnsserver.Key{}, c.mux)
	c.mux.ServeDNS(context.WithValue(ctx, dnsserver.LoopKey{}, 0), w, r)
}

// nxdomainHandler answers when there is no upstream: names outside of the cluster do not exist.
type nxdomainHandler struct{}

func (nxdomainHandler) Name() string { return "nowhere" }

func (nxdomainHandler) ServeDNS(_ context.Context, w miekg.ResponseWriter, r *miekg.Msg) (int, error) {
	m := new(miekg.Msg)
	m.SetRcode(r, miekg.RcodeNameError)
	m.RecursionAvailable = true
	return miekg.RcodeNameError, w.WriteMsg(m)
}

// upstreamMonitor logs when upstreams start and stop failing.
type upstreamMonitor struct{ failing atomic.Bool }

// monitoredForward passes a forwarder's answers on and reports its failures to the monitor.
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

// clusterNames returns CoreDNS's kubernetes plugin over an API server.
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

// staticClientConfig is a clientcmd.ClientConfig with a given configuration.
type staticClientConfig struct{ *rest.Config }

func (g staticClientConfig) ClientConfig() (*rest.Config, error) { return g.Config, nil }
func (g staticClientConfig) RawConfig() (clientcmdapi.Config, error) {
	return clientcmdapi.Config{}, nil
}
func (g staticClientConfig) Namespace() (string, bool, error)     { return "", false, nil }
func (g staticClientConfig) ConfigAccess() clientcmd.ConfigAccess { return nil }

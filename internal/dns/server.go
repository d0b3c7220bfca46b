package dns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"time"

	"github.com/coredns/coredns/plugin/kubernetes"
	miekg "github.com/miekg/dns"
	k8s "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/dns/plan"
)

// resyncPeriod is how often the node's resolver file and the link's address are checked. The file
// is often a symbolic link to one that network daemons replace, so watching its directory does not
// help.
const resyncPeriod = 10 * time.Second

// maxQueryDuration is longer than any query: CoreDNS forwards for at most five seconds.
const maxQueryDuration = 6 * time.Second

// Server answers DNS queries. It is safe for concurrent use.
type Server struct {
	o         Options
	client    k8s.Interface
	sockets   []socket
	at        netip.AddrPort // at which others reach it
	metrics   net.Listener   // at the same address, for scrapers of the Service; nil: not served
	names     *kubernetes.Kubernetes
	upstreams upstreamMonitor
	current   atomic.Pointer[handlerChain]
	// Fields below are used by runSync's goroutine only.
	settings        plan.Settings
	data            map[string]string // of the ConfigMap
	lastConfigError string            // the last error logged about it
}

// New opens the sockets; Run serves them. On an error nothing stays open.
func New(ctx context.Context, o Options) (_ *Server, err error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	s := &Server{o: o}
	own := rest.CopyConfig(o.API)
	own.QPS, own.UserAgent = -1, "gantry-dns"
	if s.client, err = k8s.NewForConfig(own); err != nil {
		return nil, fmt.Errorf("dns: %w", err)
	}
	if s.names, err = clusterNames(o.API, o.Domain); err != nil {
		return nil, fmt.Errorf("dns: %w", err)
	}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if l := o.Listen; l.Link != "" {
		if err := addAddress(l.Link, l.Cluster); err != nil {
			return nil, err
		}
		if err := s.open(ctx, netip.AddrPortFrom(l.Cluster, 53), l.Link); err != nil {
			return nil, err
		}
	}
	if b := o.Listen.Bind; b.IsValid() {
		if err := s.open(ctx, b, ""); err != nil {
			return nil, err
		}
		s.at = s.sockets[len(s.sockets)-1].address(b.Addr())
	}
	if o.Publish {
		s.metrics = listenMetrics(ctx, s.at.Addr())
	}
	return s, nil
}

// Address returns where other nodes and the node itself reach the server; invalid without
// Listen.Bind.
func (s *Server) Address() netip.AddrPort { return s.at }

func (s *Server) open(ctx context.Context, at netip.AddrPort, link string) error {
	one, err := open(ctx, at, link)
	if err == nil {
		s.sockets = append(s.sockets, one)
	}
	return err
}

func (s *Server) close() {
	for _, one := range s.sockets {
		one.close()
	}
	if s.metrics != nil {
		_ = s.metrics.Close()
	}
}

// Run answers until ctx ends. Names of the cluster fail with SERVFAIL until the first lists from
// the API server have arrived.
func (s *Server) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	_, stop, err := s.names.InitKubeCache(ctx)
	if err != nil {
		s.close()
		return fmt.Errorf("dns: %w", err)
	}
	if err := s.applySettings(); err != nil {
		s.close()
		return fmt.Errorf("dns: %w", err)
	}
	defer func() { s.current.Load().close() }()
	runs := []func(context.Context) error{
		func(ctx context.Context) error {
			go func() { <-ctx.Done(); _ = stop() }() // its only error is a second call
			s.names.APIConn.Run()
			return nil
		},
		s.runSync,
		func(ctx context.Context) error { return servePages(ctx, s.o.HTTPListener, s.pages()) },
		func(ctx context.Context) error { return servePages(ctx, s.metrics, metricsPage()) },
	}
	for _, one := range s.sockets {
		runs = append(runs, func(ctx context.Context) error { return one.serve(ctx, s) })
	}
	ended := make(chan error, len(runs))
	for _, run := range runs {
		go func() {
			err := run(ctx)
			if err != nil {
				cancel()
			}
			ended <- err
		}()
	}
	for range runs {
		if e := <-ended; !errors.Is(e, context.Canceled) {
			err = errors.Join(err, e)
		}
	}
	if s.o.Publish && s.o.Withdraw {
		s.withdraw(ctx)
	}
	if l := s.o.Listen; l.Link != "" && l.Release {
		err = errors.Join(err, removeAddress(l.Link, l.Cluster))
	}
	return err
}

// ServeDNS answers by the current settings.
func (s *Server) ServeDNS(w miekg.ResponseWriter, r *miekg.Msg) { s.current.Load().ServeDNS(w, r) }

// applySettings computes the settings from the ConfigMap, the options and the node's resolver file
// and applies them. An invalid ConfigMap changes nothing.
func (s *Server) applySettings() error {
	base := s.o.Base
	if len(base.Upstreams) == 0 && !s.o.NoUpstreams && s.o.ResolvConf != "" {
		text, err := os.ReadFile(s.o.ResolvConf)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("the node's resolver file: %w", err)
		}
		base.Upstreams = plan.Nameservers(string(text), []netip.Addr{s.o.Listen.Cluster, s.o.Listen.Bind.Addr()})
	}
	next, err := plan.Overlay(base, s.data)
	if err != nil {
		if s.lastConfigError != err.Error() {
			s.lastConfigError = err.Error()
			klog.Background().Error(err, "The DNS settings of the ConfigMap are wrong; the former ones stay in force",
				"configMap", "kube-system/"+plan.ConfigMapName)
		}
		if s.current.Load() != nil {
			return nil
		}
		next = base
	} else {
		s.lastConfigError = ""
	}
	if before := s.current.Load(); before != nil && next.Equal(s.settings) {
		return nil
	}
	created, err := newHandlerChain(s.names, next, &s.upstreams)
	if err != nil {
		return err
	}
	s.settings = next
	if before := s.current.Swap(created); before != nil {
		time.AfterFunc(maxQueryDuration, before.close) // queries in flight still use it
	}
	klog.Background().Info("DNS settings", "upstreams", next.Upstreams, "stubDomains", len(next.Stubs))
	return nil
}

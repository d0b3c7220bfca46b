package app

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/dashboard"
	"github.com/gantry-project/gantry/internal/options"
)

// dashboardPort is the one that the dashboard takes when it is free.
const dashboardPort = 6480

// Dashboard is where `gantry up` serves its page.
type Dashboard struct {
	on   bool
	port int
}

// Flags adds the page's flags.
func (d *Dashboard) Flags(f *pflag.FlagSet) {
	f.BoolVar(&d.on, "dashboard", true,
		"serve a page of the cluster on 127.0.0.1; `gantry dashboard` opens it")
	f.IntVar(&d.port, "dashboard-port", 0, fmt.Sprintf(
		"port of that page (default: the last one, %d, or any that is free)", dashboardPort))
}

// Check returns a usage error where --dashboard-port is not a port or 0. Call it after Flags are
// read.
func (d *Dashboard) Check() error {
	if d.port < 0 || d.port > 65535 {
		return cli.UsageError(fmt.Errorf("--dashboard-port %d: must be between 1 and 65535, or 0 for any", d.port))
	}
	return nil
}

// listen opens the page's port on the loopback address: the one asked for, or the first that is
// free of that of the last time, the usual one and any. The same port lets open pages go on after
// a restart.
func (d *Dashboard) listen(dataDir string) (net.Listener, error) {
	ports := []int{d.port}
	if d.port == 0 {
		ports = []int{dashboardPort, 0}
		if _, last, err := net.SplitHostPort(options.DashboardAddress(dataDir)); err == nil {
			if n, err := strconv.Atoi(last); err == nil {
				ports = append([]int{n}, ports...)
			}
		}
	}
	var last error
	for _, n := range ports {
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(n)))
		if err == nil {
			return l, nil
		}
		last = err
	}
	return nil, cli.WithFix(fmt.Errorf("dashboard: %w", last),
		"choose another port with --dashboard-port, or --dashboard=false for none")
}

// serveDashboard serves the page until ctx ends. Each person's requests go to the API server as
// that person, inside this process.
func (u *Up) serveDashboard(ctx context.Context, c runningCluster) error {
	if !u.Page.on {
		options.RecordPartAddress(u.Instance.DataDir, options.DashboardPart, "")
		<-ctx.Done()
		return nil
	}
	key, ended, err := dashboardSessions(u.Instance.DataDir)
	if err != nil {
		return err
	}
	ca, err := os.ReadFile(c.files.CA.Cert)
	if err != nil {
		return err
	}
	who, err := dashboardAuthenticator(c, ca)
	if err != nil {
		return err
	}
	pair, err := tls.LoadX509KeyPair(c.files.APIServer.Cert, c.files.APIServer.Key)
	if err != nil {
		return fmt.Errorf("dashboard: serving certificate: %w", err)
	}
	l, err := u.Page.listen(u.Instance.DataDir)
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	executable, err := os.Executable()
	if err != nil {
		return fmt.Errorf("dashboard: %w", err)
	}
	page := dashboard.New(dashboard.Options{Authenticate: who, Key: key, Ended: ended, Cluster: u.Instance.ServerURL(),
		Simulate: NewSimulate(executable),
		Config:   func(i dashboard.Identity) *rest.Config { return c.server.InProcess(i.User()) }})
	options.RecordPartAddress(u.Instance.DataDir, options.DashboardPart, l.Addr().String())
	u.Out.Step("dashboard at https://%s: gantry dashboard --kubeconfig %s opens it", l.Addr(),
		cli.KubeconfigIn(u.Instance.DataDir))
	return page.Serve(ctx, l, &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: pool})
}

// dashboardAuthenticator knows people as the API server does: by client certificates of the
// cluster, and by tokens, about which it asks.
func dashboardAuthenticator(c runningCluster, ca []byte) (authenticator.Request, error) {
	client, err := kubernetes.NewForConfig(c.server.InProcess(controllersUser()))
	if err != nil {
		return nil, err
	}
	provider, err := dynamiccertificates.NewStaticCAContent("client-ca", ca)
	if err != nil {
		return nil, fmt.Errorf("dashboard: client certificates: %w", err)
	}
	who, _, err := authenticatorfactory.DelegatingAuthenticatorConfig{
		TokenAccessReviewClient: client.AuthenticationV1(), TokenAccessReviewTimeout: 10 * time.Second,
		WebhookRetryBackoff: &wait.Backoff{Duration: 500 * time.Millisecond, Factor: 1.5, Jitter: 0.2, Steps: 5},
		CacheTTL:            10 * time.Second, ClientCertificateCAContentProvider: provider,
	}.New()
	if err != nil {
		return nil, fmt.Errorf("dashboard: authentication: %w", err)
	}
	return who, nil
}

// dashboardSessions reads the key that seals sessions, or makes it, and the sessions that were
// ended: both outlive a restart. When those ended are not known, a new key ends all.
func dashboardSessions(dataDir string) ([]byte, *dashboard.EndedSessions, error) {
	list := filepath.Join(dataDir, "dashboard-ended.json")
	ended, unread := dashboard.ReadEnded(list)
	path := filepath.Join(dataDir, "dashboard.key")
	key, err := os.ReadFile(path)
	if err == nil && len(key) == dashboard.KeySize && unread == nil {
		return key, ended, nil
	}
	if unread != nil {
		klog.Background().Error(unread, "All sessions of the dashboard end")
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, nil, fmt.Errorf("dashboard: session key: %w", err)
	}
	key = make([]byte, dashboard.KeySize)
	rand.Read(key)
	if err := os.WriteFile(path, key, 0o600); err != nil {
		return nil, nil, cli.WithFix(fmt.Errorf("dashboard: session key: %w", err), "make %s writable", dataDir)
	}
	_ = os.Remove(list) // sessions of the former key are over anyway
	return key, ended, nil
}

package pki

import (
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Lifetimes. A certificate is renewed when less than a third of its life is left; a renewed
// authority keeps its key, so that what it signed stays valid.
const (
	authorityLife = 10 * 365 * 24 * time.Hour
	leafLife      = 365 * 24 * time.Hour
)

// Options configure the certificates.
type Options struct {
	NodeName      string           // name of the Node object; required
	BindAddress   string           // address the API server listens on; empty or unspecified means loopback only
	ServiceIP     string           // first address of the service range, which is the kubernetes Service's
	ClusterDomain string           // default cluster.local
	ExtraNames    []string         // further DNS names and addresses of this machine
	Now           func() time.Time // default time.Now
}

// Pair is a certificate (or public key) and its private key, both PEM files.
type Pair struct{ Cert, Key string }

// Files are the paths of everything made.
type Files struct {
	Dir               string
	CA                Pair // cluster authority: signs everything but the front proxy's certificate; also the client CA
	FrontProxyCA      Pair
	APIServer         Pair // serving certificate
	KubeletClient     Pair // the API server towards kubelets
	Admin             Pair
	Scheduler         Pair
	ControllerManager Pair
	Network           Pair // network agents of nodes that join
	LocalStorage      Pair // drivers of local volumes there
	Proxy             Pair // Service proxies of nodes that join
	Node              Pair // the kubelet towards the API server
	NodeServing       Pair // the kubelet's own port
	FrontProxyClient  Pair // the API server towards aggregated API servers
	ServiceAccount    Pair // public and private key of service-account tokens
}

// Ensure creates missing files below dir, renews those that expire soon or lack current names, and
// tightens file modes. A damaged file is an error with its name and the remedy; it is not
// overwritten.
func Ensure(dir string, o Options) (*Files, error) {
	if o.NodeName == "" {
		return nil, fmt.Errorf("certificates in %s: the node name is empty: give one", dir)
	}
	if o.ClusterDomain == "" {
		o.ClusterDomain = "cluster.local"
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("directory of certificates: %w", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, fmt.Errorf("directory of certificates: %w", err)
	}
	cluster, err := ensureAuthority(dir, "ca", "kubernetes", o.Now())
	if err != nil {
		return nil, err
	}
	front, err := ensureAuthority(dir, "front-proxy-ca", "front-proxy-ca", o.Now())
	if err != nil {
		return nil, err
	}
	for _, l := range leafCertificates(o) {
		by := cluster
		if l.frontProxy {
			by = front
		}
		if err := ensureLeaf(dir, l, by, o.Now()); err != nil {
			return nil, err
		}
	}
	if err := ensureTokenKey(dir); err != nil {
		return nil, err
	}
	return files(dir), nil
}

func files(dir string) *Files {
	at := func(name string) Pair {
		return Pair{Cert: filepath.Join(dir, name+".crt"), Key: filepath.Join(dir, name+".key")}
	}
	return &Files{
		Dir: dir, CA: at("ca"), FrontProxyCA: at("front-proxy-ca"), APIServer: at("apiserver"),
		KubeletClient: at("apiserver-kubelet-client"),
		Admin:         at("admin"), Scheduler: at("scheduler"), ControllerManager: at("controller-manager"),
		Network: at("network"), LocalStorage: at("local-storage"), Proxy: at("proxy"), Node: at("kubelet-client"),
		NodeServing: at("kubelet"), FrontProxyClient: at("front-proxy-client"),
		ServiceAccount: Pair{Cert: filepath.Join(dir, "sa.pub"), Key: filepath.Join(dir, "sa.key")},
	}
}

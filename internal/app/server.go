package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"

	"github.com/gantry-project/gantry/internal/apiserver"
	"github.com/gantry-project/gantry/internal/apiserver/auth"
	"github.com/gantry-project/gantry/internal/apiserver/registry/pods"
	"github.com/gantry-project/gantry/internal/apiserver/store"
	"github.com/gantry-project/gantry/internal/app/storecontrollers"
	"github.com/gantry-project/gantry/internal/journal/ring"
	"github.com/gantry-project/gantry/internal/pki"
)

// certificates makes or renews everything below DATA-DIR/pki.
func (p *instanceOptions) certificates() (*pki.Files, error) {
	files, err := pki.Ensure(filepath.Join(p.dataDir, "pki"), pki.Options{
		NodeName: p.nodeName, BindAddress: p.bindAddress, ServiceIP: p.firstServiceIP(),
		ExtraNames: append(p.nodeIPs(), "127.0.0.1", "localhost"),
	})
	if err != nil {
		return nil, fmt.Errorf("certificates: %w", err)
	}
	return files, nil
}

// kubeconfigs writes the administrator's kubeconfig and those of the components, each 0600.
func (p *instanceOptions) kubeconfigs(files *pki.Files) error {
	ca, err := os.ReadFile(files.CA.Cert)
	if err != nil {
		return err
	}
	for _, k := range []struct {
		path string
		pair pki.Pair
		url  string
	}{
		{kubeconfigIn(p.dataDir), files.Admin, p.serverURL()},
		{filepath.Join(p.dataDir, "scheduler.kubeconfig"), files.Scheduler, p.serverURL()},
		{filepath.Join(p.dataDir, "controllers.kubeconfig"), files.ControllerManager, p.serverURL()},
		{filepath.Join(p.dataDir, "kubelet.kubeconfig"), files.Node, p.serverURL()},
		// For nodes that join, to be copied there.
		{filepath.Join(p.dataDir, "network.kubeconfig"), files.Network, p.advertisedURL()},
		{filepath.Join(p.dataDir, "proxy.kubeconfig"), files.Proxy, p.advertisedURL()},
	} {
		cert, err := os.ReadFile(k.pair.Cert)
		if err != nil {
			return err
		}
		key, err := os.ReadFile(k.pair.Key)
		if err != nil {
			return err
		}
		if err := pki.WriteKubeconfig(k.path, k.url, pki.Material{CA: ca, Cert: cert, Key: key}); err != nil {
			return withFix(fmt.Errorf("kubeconfig %s: %w", k.path, err), "make %s writable", p.dataDir)
		}
	}
	return nil
}

// newAPIServer builds the API server of this instance.
func newAPIServer(ctx context.Context, p *instanceOptions, files *pki.Files,
	log *ring.Ring) (*apiserver.Server, error) {
	services, err := p.serviceRanges()
	if err != nil {
		return nil, usageError(err)
	}
	advertise, _ := netip.ParseAddr(p.nodeIP) // checked in complete
	bind, _ := netip.ParseAddr(p.bindAddress)
	alone := advertise.IsLoopback() || bind.IsLoopback() // all of the cluster is on this machine
	if advertise.IsLoopback() {
		advertise = netip.Addr{} // an endpoint may not be a loopback address; the server finds another one
	}
	kubelets, insecure, err := kubeletTransports(files, p.apiServer.kubeletCA)
	if err != nil {
		return nil, err
	}
	c := apiserver.Config{
		DataDir: p.dataDir,
		Listen:  apiserver.Listen{Address: p.bindAddress, Port: p.securePort, Advertise: advertise},
		Etcd:    p.storage.etcd,
		Files: apiserver.Files{
			Cert: files.APIServer.Cert, Key: files.APIServer.Key, ClientCA: files.CA.Cert,
			ProxyCert: files.FrontProxyClient.Cert, ProxyKey: files.FrontProxyClient.Key,
			RequestHeaderCA:       files.FrontProxyCA.Cert,
			ServiceAccountSigning: files.ServiceAccount.Key,
		},
		Services: apiserver.ServiceRanges{CIDRs: services},
		Kubelets: pods.Connections{
			Kubelet: kubelets, KubeletInsecure: insecure, LoopbackNodes: alone,
			Addresses: []v1.NodeAddressType{v1.NodeInternalIP, v1.NodeExternalIP, v1.NodeHostName},
		},
		Journal: apiserver.Journal{Sink: log.SinkFor("apiserver", ""), Reader: log, Appender: log},
		Access:  auth.Access(p.apiServer.auth), Audit: p.apiServer.audit, Encryption: p.apiServer.encryption,
		FlowControl: apiserver.FlowControl{PriorityAndFairness: p.apiServer.priorityAndFairness,
			MaxInFlight: p.apiServer.inFlight()},
		Features:    p.apiServer.gates.Features,
		Controllers: storecontrollers.All(),
	}
	s, err := apiserver.New(ctx, c)
	return s, serverError(p, err)
}

// serverError attaches the remedy that belongs to a start that failed.
func serverError(p *instanceOptions, err error) error {
	var port *apiserver.PortTaken
	var damaged *store.Damaged
	switch {
	case errors.As(err, &port):
		return withFix(fmt.Errorf("port %d on %s is taken", p.securePort, p.bindAddress),
			"stop the program that listens there (ss -ltnp names it), or choose another port with --secure-port")
	case errors.As(err, &damaged):
		return withFix(err,
			"restore a snapshot: gantry etcd snapshot restore FILE --data-dir %s; or start anew with another "+
				"--data-dir", p.dataDir)
	}
	return err
}

// kubeletTransports carry logs, exec and the like to kubelets and show the server's client
// certificate. The first checks theirs, by the cluster's authority and those of the file more if it
// is named; the second does not, for those who ask for that.
func kubeletTransports(files *pki.Files, more string) (checked, unchecked http.RoundTripper, err error) {
	believed, err := os.ReadFile(files.CA.Cert)
	if err == nil && more != "" {
		var further []byte
		if further, err = readCA(more); err != nil {
			return nil, nil, withFix(fmt.Errorf("--kubelet-certificate-authority: %w", err),
				"name a PEM file with the authorities of kubelets' serving certificates")
		}
		believed = append(append(believed, '\n'), further...)
	}
	if err != nil {
		return nil, nil, err
	}
	shown := rest.TLSClientConfig{CAData: believed, CertFile: files.KubeletClient.Cert,
		KeyFile: files.KubeletClient.Key}
	if checked, err = rest.TransportFor(&rest.Config{TLSClientConfig: shown}); err != nil {
		return nil, nil, err
	}
	shown.CAData, shown.Insecure = nil, true
	unchecked, err = rest.TransportFor(&rest.Config{TLSClientConfig: shown})
	return checked, unchecked, err
}

// Users under which the parts of one process speak to the API server: the same as with
// certificates.
func schedulerUser() user.Info {
	return &user.DefaultInfo{Name: user.KubeScheduler, Groups: []string{user.AllAuthenticated}}
}

func controllersUser() user.Info {
	return &user.DefaultInfo{Name: user.KubeControllerManager, Groups: []string{user.AllAuthenticated}}
}

func nodeUser(name string) user.Info {
	return &user.DefaultInfo{Name: "system:node:" + name, Groups: []string{user.NodesGroup, user.AllAuthenticated}}
}

package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"

	"github.com/gantry-project/gantry/internal/apiserver"
	"github.com/gantry-project/gantry/internal/apiserver/auth"
	"github.com/gantry-project/gantry/internal/apiserver/registry/pods"
	"github.com/gantry-project/gantry/internal/apiserver/store"
	"github.com/gantry-project/gantry/internal/app/storecontrollers"
	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/journal/ring"
	"github.com/gantry-project/gantry/internal/options"
	"github.com/gantry-project/gantry/internal/pki"
)

// newAPIServer builds the API server of this instance.
func newAPIServer(ctx context.Context, p *options.Instance, files *pki.Files,
	log *ring.Ring) (*apiserver.Server, error) {
	services, err := p.ServiceRanges()
	if err != nil {
		return nil, cli.UsageError(err)
	}
	advertise, _ := netip.ParseAddr(p.NodeIP) // checked in complete
	bind, _ := netip.ParseAddr(p.BindAddress)
	alone := advertise.IsLoopback() || bind.IsLoopback() // all of the cluster is on this machine
	if advertise.IsLoopback() {
		advertise = netip.Addr{} // an endpoint may not be a loopback address; the server finds another one
	}
	kubelets, insecure, err := kubeletTransports(files, p.APIServer.KubeletCA)
	if err != nil {
		return nil, err
	}
	c := apiserver.Config{
		DataDir: p.DataDir,
		Listen:  apiserver.Listen{Address: p.BindAddress, Port: p.SecurePort, Advertise: advertise},
		Etcd:    p.Storage.Etcd,
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
		Access:  auth.Access(p.APIServer.Auth), Audit: p.APIServer.Audit, Encryption: p.APIServer.Encryption,
		FlowControl: apiserver.FlowControl{PriorityAndFairness: p.APIServer.PriorityAndFairness,
			MaxInFlight: p.APIServer.InFlight()},
		Features: p.APIServer.Gates.Features, Controllers: storecontrollers.All(),
	}
	s, err := apiserver.New(ctx, c)
	return s, serverError(p, err)
}

// serverError attaches the remedy that belongs to a start that failed.
func serverError(p *options.Instance, err error) error {
	var port *apiserver.PortTaken
	var damaged *store.Damaged
	switch {
	case errors.As(err, &port):
		return cli.WithFix(fmt.Errorf("port %d on %s is taken", p.SecurePort, p.BindAddress),
			"stop the program that listens there (ss -ltnp names it), or choose another port with --secure-port")
	case errors.As(err, &damaged):
		return cli.WithFix(err,
			"restore a snapshot: gantry etcd snapshot restore FILE --data-dir %s; or start anew with another "+
				"--data-dir", p.DataDir)
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
			return nil, nil, cli.WithFix(fmt.Errorf("--kubelet-certificate-authority: %w", err),
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

package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"

	"github.com/gantry-project/gantry/internal/app/noderole"
	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/journal/ring"
	"github.com/gantry-project/gantry/internal/kubelet/server"
	"github.com/gantry-project/gantry/internal/options"
)

// errStandalone answers whoever asks for an API server where there is none.
var errStandalone = errors.New("this node runs without an API server; name one with --kubeconfig")

// noAPIServer is a transport that fails each request with errStandalone.
type noAPIServer struct{}

// RoundTrip returns errStandalone and sends nothing.
func (noAPIServer) RoundTrip(*http.Request) (*http.Response, error) { return nil, errStandalone }

// RunStandalone is a node without an API server: it runs static Pods and answers on its port and on
// a socket in its data directory.
func (k *Kubelet) RunStandalone(ctx context.Context, out *cli.Progress) error {
	if err := k.Instance.Complete(); err != nil {
		return err
	}
	if err := k.Node.loadConfig(&k.Instance); err != nil {
		return err
	}
	c := k.Node.Loaded.Config
	if c.StaticPodPath == "" && c.StaticPodURL == "" {
		return cli.UsageError(
			errors.New("gantry kubelet wants --kubeconfig, or static Pods to run without an API server: " +
				"staticPodPath or staticPodURL in the file of --config"))

	}
	if err := errors.Join(cli.RequireRoot("gantry kubelet"), cli.RequireKernel("/"),
		cli.RequirePort("", k.Instance.KubeletPort, "--kubelet-port")); err != nil {
		return err
	}
	lock, err := options.LockDataDir(k.Instance.DataDir)
	if err != nil {
		return err
	}
	defer lock.Release()
	log, err := ring.Open(ring.Options{Dir: filepath.Join(k.Instance.DataDir, "journal")})
	if err != nil {
		return err
	}
	defer log.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: "https://no-api-server.invalid",
		Transport: noAPIServer{}})
	if err != nil {
		return err
	}
	sink := log.SinkFor("kubelet", k.Instance.NodeName)
	e, err := noderole.StartContainerRuntime(ctx, &k.Instance, sink, out.Step)
	if err != nil {
		return err
	}
	defer e.Close()
	role, err := k.Node.Role(ctx, &k.Instance, e, client)
	if err != nil {
		return err
	}
	role.Journal, role.Standalone = sink, true
	if role.TLS.Options, err = standaloneServing(k.Instance.NodeName, k.Instance.NodeIP, k.standaloneCA()); err != nil {
		return err
	}
	x, err := role.Build()
	if err != nil {
		return err
	}
	socket := filepath.Join(k.Instance.DataDir, "kubelet.sock")
	out.Step("node %s runs without an API server; ask it: curl --unix-socket %s http://kubelet/pods",
		k.Instance.NodeName,
		socket)
	return noderole.RunAll(ctx, x.Run,
		func(ctx context.Context) error { return server.ServeSocket(ctx, socket, x.Server.Handler()) })
}

func (k *Kubelet) standaloneCA() string {
	if k.ClientCA != "" {
		return k.ClientCA
	}
	return k.Node.Loaded.Config.Authentication.X509.ClientCAFile
}

// standaloneServing is how the port is served where nobody can be asked about tokens and rights; ca
// is the file of the authorities of client certificates, empty for none.
func standaloneServing(name, ip, ca string) (server.Options, error) {
	if ca == "" {
		return server.Standalone(name, net.ParseIP(ip), nil)
	}
	pool, err := cert.NewPool(ca)
	if err != nil {
		return server.Options{}, cli.WithFix(fmt.Errorf("authorities of client certificates: %w", err),
			"name a PEM file with --client-ca-file")
	}
	return server.Standalone(name, net.ParseIP(ip), pool)
}

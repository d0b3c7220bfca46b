package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/client-go/rest"

	"github.com/gantry-project/gantry/internal/pki"
	"github.com/gantry-project/gantry/test/ports"
)

// referenceProgram is the program of another API server and its etcd.
type referenceProgram struct{ server, etcd string }

// startReference runs a kube-apiserver configured as the recorded one, with its etcd, below dir,
// where its log stays unless it ends well.
func startReference(ctx context.Context, dir string, p referenceProgram) (*server, error) {
	files, err := pki.Ensure(filepath.Join(dir, "pki"), pki.Options{NodeName: "node-1", ServiceIP: "10.96.0.1",
		ExtraNames: []string{"127.0.0.1"}})
	if err != nil {
		return nil, err
	}
	tokenFile, signing := filepath.Join(dir, "tokens.csv"), filepath.Join(dir, "sa.key")
	if err := errors.Join(os.WriteFile(tokenFile, []byte(tokens), 0o600), writeRSAKey(signing)); err != nil {
		return nil, err
	}
	var port [3]int
	for i := range port {
		if port[i], err = ports.Free(); err != nil {
			return nil, err
		}
	}
	store, peers := "http://127.0.0.1:"+strconv.Itoa(port[0]), "http://127.0.0.1:"+strconv.Itoa(port[1])
	etcd, err := start(dir, p.etcd, "--data-dir="+filepath.Join(dir, "etcd"), "--listen-client-urls="+store,
		"--advertise-client-urls="+store,
		"--listen-peer-urls="+peers, "--initial-advertise-peer-urls="+peers, "--initial-cluster=default="+peers,
		"--unsafe-no-fsync")
	if err != nil {
		return nil, err
	}
	kube, err := start(dir, p.server, "--etcd-servers="+store, "--bind-address=127.0.0.1",
		"--secure-port="+strconv.Itoa(port[2]), "--advertise-address=192.0.2.10",
		"--tls-cert-file="+files.APIServer.Cert, "--tls-private-key-file="+files.APIServer.Key,
		"--client-ca-file="+files.CA.Cert, "--token-auth-file="+tokenFile,
		"--proxy-client-cert-file="+files.FrontProxyClient.Cert, "--proxy-client-key-file="+files.FrontProxyClient.Key,
		"--requestheader-client-ca-file="+files.FrontProxyCA.Cert,
		"--requestheader-extra-headers-prefix=X-Remote-Extra-", "--requestheader-group-headers=X-Remote-Group",
		"--requestheader-username-headers=X-Remote-User",
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-signing-key-file="+signing, "--service-account-key-file="+signing,
		"--service-cluster-ip-range=10.96.0.0/16", "--authorization-mode=Node,RBAC", "--allow-privileged",
		"--enable-admission-plugins=NodeRestriction")
	if err != nil {
		return nil, errors.Join(err, etcd())
	}
	stop := func() error { return errors.Join(kube(), etcd()) }
	out := &server{stop: stop,
		client: func() (*clientv3.Client, error) { return clientv3.New(clientv3.Config{Endpoints: []string{store}}) }}
	out.URL, out.Other = "https://127.0.0.1:"+strconv.Itoa(port[2]), true
	if out.Users, err = users(files); err == nil {
		if err = ready(ctx, out.Users["admin"], out.URL); err == nil {
			err = runControllers(ctx, &rest.Config{Host: out.URL, BearerToken: "admin-token", QPS: -1,
				TLSClientConfig: rest.TLSClientConfig{CAFile: files.CA.Cert}}, files)
		}
	}
	if err != nil {
		return nil, errors.Join(err, stop())
	}
	return out, nil
}

// start runs a program; the function that it returns ends it and waits.
func start(dir, name string, args ...string) (stop func() error, err error) {
	log, err := os.Create(filepath.Join(dir, filepath.Base(name)+".log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return func() error {
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			return fmt.Errorf("%s ended by itself: %w", name, err)
		}
		_ = cmd.Wait() // interrupted programs end with an error
		return nil
	}, nil
}

// ready waits until a server says that it is.
func ready(ctx context.Context, c *http.Client, url string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for last := error(nil); ; {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/readyz", nil)
		if err != nil {
			return err
		}
		answer, err := c.Do(req)
		var refused *net.OpError
		switch {
		case err == nil && answer.StatusCode == http.StatusOK:
			return answer.Body.Close()
		case err == nil:
			answer.Body.Close()
			last = errors.New(answer.Status)
		case errors.As(err, &refused):
			last = err
		default:
			return errors.Join(err, last)
		}
		select {
		case <-time.After(200 * time.Millisecond): // nothing signals when a program's port opens
		case <-ctx.Done():
			return errors.Join(ctx.Err(), last)
		}
	}
}

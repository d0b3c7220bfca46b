package networkagent

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/certificate/csr"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/app/noderole"
	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/kubelet/certs"
	"github.com/gantry-project/gantry/internal/options"
	"github.com/gantry-project/gantry/internal/pki"
)

// Credentials are those of a joined node's network agent: the kubeconfig of the user
// gantry-network, which may see other nodes and network policies.
type Credentials struct {
	Instance   *options.Instance
	Node       *rest.Config // as this node, which asks for the agent's certificate
	Kubeconfig string       // file
	Logf       func(string, ...any)
}

// ClusterConfig gives the connection of the agent. It asks for a certificate where the node has
// none, waits until somebody approves it, and renews it until ctx ends; what fails is logged and
// tried again, so that an error comes with the end of ctx, or from a renewal that cannot be set up.
func (c Credentials) ClusterConfig(ctx context.Context) (*rest.Config, error) {
	c.Logf = skipRepeated(c.Logf)
	wide, err := waitForCredentials(ctx, credentialsRetryPeriod, func(ctx context.Context) (*rest.Config, error) {
		if c.missing(time.Now()) {
			if err := c.request(ctx); err != nil {
				return nil, err
			}
		}
		wide, _, err := cli.RestConfig(c.Kubeconfig)
		return wide, err
	})
	if err != nil {
		return nil, err
	}
	renewed, err := c.renewal()
	if renewed != nil {
		go noderole.RunRenewal(renewed)(ctx)
	}
	return wide, err
}

// request makes the kubeconfig: the node asks for a certificate of the user gantry-network, and
// somebody approves, as a node by itself must not see other nodes' Pods. It returns when the file
// is written.
func (c Credentials) request(ctx context.Context) error {
	dir := c.Instance.PKIDir()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(c.Node)
	if err != nil {
		return err
	}
	pemFile := certs.AgentFile(dir)
	if cli.Readable(pemFile) { // its request is used up: a new key makes a new one
		// the key may have gone in a start that was cut short
		for _, file := range []string{filepath.Join(dir, "network.key"), pemFile} {
			if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("key of the network agent: %w", err)
			}
		}
	}
	keyPEM, _, err := keyutil.LoadOrGenerateKeyFile(filepath.Join(dir, "network.key"))
	if err != nil {
		return fmt.Errorf("key of the network agent: %w", err)
	}
	key, err := keyutil.ParsePrivateKeyPEM(keyPEM)
	if err != nil {
		return cli.WithFix(fmt.Errorf("key of the network agent: %w", err), "remove %s",
			filepath.Join(dir, "network.key"))
	}
	request, err := cert.MakeCSRFromTemplate(key,
		&x509.CertificateRequest{Subject: pkix.Name{CommonName: pki.NetworkUser}})
	if err != nil {
		return fmt.Errorf("request of the network agent: %w", err)
	}
	if err := waitForAPIServer(ctx, client, apiServerRetryPeriod); err != nil {
		return err
	}
	name := requestName(c.Instance.NodeName, keyPEM)
	// The usages of a key that is not RSA: it encrypts no others.
	usages := []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth}
	name, uid, err := csr.RequestCertificateWithContext(ctx, client, request, name,
		certificatesv1.KubeAPIServerClientSignerName, nil, usages, key)
	if err != nil {
		return cli.WithFix(fmt.Errorf("certificate of the network agent: %w", err),
			"copy network.kubeconfig from the data directory of gantry up to %s", c.Kubeconfig)
	}
	c.Logf("the network agent waits for its certificate: kubectl certificate approve %s", name)
	signed, err := csr.WaitForCertificate(ctx, client, name, uid)
	if err != nil {
		return cli.WithFix(fmt.Errorf("certificate of the network agent: %w", err),
			"kubectl delete csr %s, and approve the next one; or copy network.kubeconfig from the data directory of "+
				"gantry up to %s", name, c.Kubeconfig)
	}
	if err := certs.SaveAgent(dir, signed, keyPEM); err != nil {
		return err
	}
	return noderole.WriteNodeConfig(rest.CopyConfig(c.Node), pemFile, c.Kubeconfig)
}

// waitForCredentials gives the client that makes, and asks again after a while where it may not be
// had: a request that is denied, or deleted before somebody approves, leaves a node without
// policies and ways to other nodes, and its Pods run on. The same failure is told once.
func waitForCredentials[T any](ctx context.Context, every time.Duration,
	makes func(context.Context) (T, error)) (client T, err error) {
	reported := ""
	err = wait.PollUntilContextCancel(ctx, every, true, func(ctx context.Context) (bool, error) {
		var failed error
		if client, failed = makes(ctx); failed == nil {
			return true, nil
		}
		if text := failed.Error(); text != reported && ctx.Err() == nil {
			fix := ""
			var r cli.ErrorWithFix
			if errors.As(failed, &r) {
				fix = r.Fix
			}
			klog.FromContext(ctx).Error(failed,
				"The network agent is not let in: network policies are not in force here, and no ways lead to other "+
					"nodes. All else of the node goes on", "remedy", fix, "triesAgain", every)
			reported = text
		}
		return false, nil
	})
	return client, err
}

// skipRepeated passes each text on once. Not safe for concurrent use.
func skipRepeated(logf func(string, ...any)) func(string, ...any) {
	output := map[string]bool{}
	return func(format string, args ...any) {
		if text := fmt.Sprintf(format, args...); !output[text] {
			output[text] = true
			logf("%s", text)
		}
	}
}

// credentialsRetryPeriod is how often a network agent tries that was not let in.
const credentialsRetryPeriod = 30 * time.Second

// apiServerRetryPeriod is how often an API server that does not answer is asked.
const apiServerRetryPeriod = 5 * time.Second

// waitForAPIServer waits until the API server answers: a node runs its Pods without one, and does
// not end because it cannot ask for a certificate yet.
func waitForAPIServer(ctx context.Context, client kubernetes.Interface, every time.Duration) error {
	reported := false
	return wait.PollUntilContextCancel(ctx, every, true, func(ctx context.Context) (bool, error) {
		_, err := client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		// what is wrong then is said when the certificate is asked for
		if err == nil || apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err) {
			return true, nil
		}
		if !reported {
			klog.FromContext(ctx).Info("The network agent waits for the API server, which it has to ask for its "+
				"certificate", "err", err)
			reported = true
		}
		return false, nil
	})
}

// missing tells whether the network agent has no credentials: no kubeconfig, or one with a
// certificate that this node had asked for and that has ended.
func (c Credentials) missing(now time.Time) bool {
	if !cli.Readable(c.Kubeconfig) {
		return true
	}
	file := certs.AgentFile(c.Instance.PKIDir())
	if _, err := os.Stat(file); err != nil {
		return false // a kubeconfig that was brought here
	}
	have, err := cert.CertsFromFile(file)
	return err != nil || now.After(have[0].NotAfter)
}

// renewal asks for a new certificate of the network agent before the one ends that this node had
// asked for, as the node itself; somebody approves it as the first. The clients that show it read
// its file again. A kubeconfig that was brought here is not the node's to renew: nil.
func (c Credentials) renewal() (*certs.CSRCertificate, error) {
	dir := c.Instance.PKIDir()
	if _, err := os.Stat(certs.AgentFile(dir)); err != nil {
		return nil, nil
	}
	return certs.Agent(certs.CSROptions{NodeName: c.Instance.NodeName, Dir: dir,
		Client: func(*tls.Certificate) (kubernetes.Interface, error) {
			c.Logf("the network agent asks for a new certificate, as its own is about to end: see kubectl get csr, " +
				"then kubectl certificate approve")
			return noderole.ClientFor(c.Node, "gantry-network")
		}}, pki.NetworkUser)
}

// requestName is the same for the same key: a node that starts again finds the request it has made.
func requestName(node string, keyPEM []byte) string {
	block, _ := pem.Decode(keyPEM)
	if block == nil {
		return ""
	}
	sum := sha256.Sum256(block.Bytes)
	return fmt.Sprintf("gantry-network-%s-%s", node, hex.EncodeToString(sum[:4]))
}

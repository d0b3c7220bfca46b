package breaker

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/test/expect"
	"github.com/gantry-project/gantry/testcluster"
)

// situation is a kind of break of the held-out part, which whoever improves the rules of `why` does
// not read. Its texts have marks <<broken||well>>: what stands on the left is the break, and with
// what stands on the right in its place nothing is wrong. So the truth can be shown without `why`.
type situation struct {
	name     string
	manifest string // objects with --- between; placeholders as in words
	ask      string // kind/name
	truth    []truth
	before   []step               // done before the manifest is applied
	steps    []step               // done after it
	nodes    []string             // a cluster of its own with these nodes; none: the shared one
	options  []testcluster.Option // of a cluster of its own
	unseen   bool                 // the object's status does not show the break
}

// heldOut are all kinds of the held-out part.
func heldOut() []situation {
	return slices.Concat(heldOutReferences, heldOutLabels, heldOutNumbers, heldOutLives, heldOutVolumes,
		heldOutRefusals, heldOutNodes, heldOutPairs, heldOutWell)
}

// variant resolves the marks of a text.
func variant(text string, well bool) string {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(text, "<<")
		out.WriteString(before)
		if !found {
			return out.String()
		}
		mark, after, _ := strings.Cut(rest, ">>")
		broken, mended, _ := strings.Cut(mark, "||")
		if well {
			broken = mended
		}
		out.WriteString(broken)
		text = after
	}
}

// scene is where one situation is played.
type scene struct {
	*breaker
	cluster   *testcluster.Cluster
	namespace string
	words     words
	well      bool // the right side of the marks
}

func (s scene) text(t string) string { return s.words.in(variant(t, s.well)) }

// step does something with a scene.
type step func(ctx context.Context, s scene) error

// pause lets what was begun go on; no signal tells when a component has given up.
func pause(d time.Duration) step {
	return func(ctx context.Context, _ scene) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// reached waits until an object is well.
func reached(ask string) step {
	return func(ctx context.Context, s scene) error {
		watch := expect.NewStopwatch()
		for {
			well, saw, err := s.isWell(ctx, s.text(ask))
			if well || err != nil {
				return err
			}
			if watch.Elapsed() > patience {
				return fmt.Errorf("%s does not become well: %s", s.text(ask), saw)
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
}

// change patches or deletes: "kind/name {…}", "kind/name delete". An empty text does nothing.
func change(text string) step {
	return func(ctx context.Context, s scene) error {
		if text := s.text(text); text != "" {
			return s.change(ctx, s.namespace, text)
		}
		return nil
	}
}

// create creates objects.
func create(manifest string) step {
	return func(ctx context.Context, s scene) error { return s.apply(ctx, s.namespace, s.text(manifest)) }
}

// deleteForeground deletes an object after what it owns.
func deleteForeground(kind schema.GroupKind, name string) step {
	return func(ctx context.Context, s scene) error {
		r, err := s.resource(kind, s.namespace)
		if err != nil {
			return err
		}
		policy := metav1.DeletePropagationForeground
		return r.Delete(ctx, s.text(name), metav1.DeleteOptions{PropagationPolicy: &policy})
	}
}

// approve approves a certificate request.
func approve(name string) step {
	return func(ctx context.Context, s scene) error {
		requests := s.client.CertificatesV1().CertificateSigningRequests()
		csr, err := requests.Get(ctx, s.text(name), metav1.GetOptions{})
		if err != nil {
			return err
		}
		csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
			Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Approved",
			Message: "approved by an administrator"})
		_, err = requests.UpdateApproval(ctx, csr.Name, csr, metav1.UpdateOptions{})
		return err
	}
}

// resize changes a running Pod's resources.
func resize(pod, patch string) step {
	return func(ctx context.Context, s scene) error {
		_, err := s.client.CoreV1().Pods(s.namespace).Patch(ctx, s.text(pod), types.StrategicMergePatchType,
			[]byte(s.text(patch)), metav1.PatchOptions{}, "resize")
		return err
	}
}

// do calls a function of the cluster when the situation is to be broken.
func do(f func(c *testcluster.Cluster)) step {
	return func(_ context.Context, s scene) error {
		if !s.well {
			f(s.cluster)
		}
		return nil
	}
}

// always calls a function of the cluster.
func always(f func(c *testcluster.Cluster)) step {
	return func(_ context.Context, s scene) error {
		f(s.cluster)
		return nil
	}
}

// certificates adds words for two certificates of one key, in base64: $CRT that is valid and $OLD
// that was; $KEY is the key, $PEM the valid one as a YAML string.
func certificates(w words) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	w["$KEY"] = base64Of("PRIVATE KEY", der)
	now := time.Now()
	for word, end := range map[string]time.Time{"$CRT": now.Add(24 * time.Hour), "$OLD": now.Add(-time.Hour)} {
		t := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now.Add(-48 * time.Hour), NotAfter: end,
			Subject: pkix.Name{CommonName: "example.com"}, DNSNames: []string{"example.com"}, IsCA: true,
			BasicConstraintsValid: true}
		if der, err = x509.CreateCertificate(rand.Reader, t, t, key.Public(), key); err != nil {
			return err
		}
		w[word] = base64Of("CERTIFICATE", der)
		if word == "$CRT" {
			quoted, err := json.Marshal(string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
			if err != nil {
				return err
			}
			w["$PEM"] = string(quoted)
		}
	}
	return nil
}

func base64Of(kind string, der []byte) string {
	var b bytes.Buffer
	quoted, _ := json.Marshal(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})) // bytes become base64
	b.Write(bytes.Trim(quoted, `"`))
	return b.String()
}

// shell is a container that runs a shell text; its termination message is in its status.
func shell(name, text, more string) string {
	if more != "" {
		more = ", " + more
	}
	return fmt.Sprintf(`{name: %s, image: app, terminationMessagePolicy: FallbackToLogsOnError, command: [sh, `+
		`-c, %q]%s}`,
		name, text, more)
}

// mounted is a container with the volume v: one that no container mounts is not waited for.
const mounted = `{name: app, image: app, volumeMounts: [{name: v, mountPath: /v}]}`

// serving is a container whose program answers HTTP on port 8080 after some seconds.
func serving(after int, more string) string {
	return shell("app", fmt.Sprintf("sleep %d; httpd 8080", after),
		"ports: [{name: http, containerPort: 8080}], "+more)
}

// deploy is a Deployment with more fields than workload has.
func deploy(name, more, spec string) string {
	return object("apps/v1", "Deployment", name, `spec: {`+more+`selector: {matchLabels: {app: `+name+`}}, `+
		`template: {metadata: {labels: {app: `+name+`}}, spec: `+spec+`}}`)
}

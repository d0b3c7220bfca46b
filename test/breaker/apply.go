package breaker

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/yaml"

	"github.com/gantry-project/gantry/test/expect"
	"github.com/gantry-project/gantry/testcluster"
)

// team is the value of the taint of node-2.
const team = "batch"

// patience is how long a break may take to show; some controllers are given ten seconds before they
// are called idle. A stopwatch measures it: a busy machine shows a break later.
const patience = 25 * time.Second

// ahead is how far the clock of an answer is before the real one: what a controller has not done
// then, it does not do. It is less than two terms of a lease.
const ahead = 20 * time.Second

// breaker plays breaks in one cluster. Its methods are safe for concurrent use.
type breaker struct {
	client  kubernetes.Interface
	dynamic dynamic.Interface
	mapper  meta.RESTMapper
	request string // a certificate request, in PEM and base64
	expired string // a certificate for somebody.example.com that ended on 2001-01-02, likewise
	valid   string // one that has not ended, likewise
	more    words  // further placeholders

	kubeconfig string // for kubectl; empty: remedies are not tried
	programs   string // a directory to look for kubectl in; empty: it is on the path

	foreign  bool          // why reads through a client that has nothing of Gantry's own
	patience time.Duration // how long a break may take to show; 0: patience
	others   bool          // other questions about the same break are asked too
	reported func(name string, p points)
}

// newBreaker returns a breaker of a cluster, with GANTRY_FOREIGN as another Kubernetes would serve
// it.
func newBreaker(c *testcluster.Cluster) (*breaker, error) {
	return breakerOf(c, os.Getenv("GANTRY_FOREIGN") != "")
}

// breakerOf returns a breaker of a cluster; foreign: why reads it as another Kubernetes would serve
// it.
func breakerOf(c *testcluster.Cluster, foreign bool) (*breaker, error) {
	d, err := dynamic.NewForConfig(c.Config)
	if err != nil {
		return nil, err
	}
	disco, err := discovery.NewDiscoveryClientForConfig(c.Config)
	if err != nil {
		return nil, err
	}
	groups, err := restmapper.GetAPIGroupResources(disco)
	if err != nil {
		return nil, err
	}
	request, err := certificateRequest()
	if err != nil {
		return nil, err
	}
	b := &breaker{client: c.Client, dynamic: d, mapper: restmapper.NewDiscoveryRESTMapper(groups), request: request,
		foreign: foreign}
	for end, into := range map[time.Time]*string{time.Date(2001, 1, 2, 0, 0, 0, 0, time.UTC): &b.expired,
		time.Date(2090, 1, 2, 0, 0, 0, 0, time.UTC): &b.valid} {
		if *into, err = certificateUntil(end); err != nil {
			return nil, err
		}
	}
	if foreign {
		b.client, err = foreignClient(c.Config)
	}
	return b, err
}

func certificateRequest() (string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", err
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{
		CommonName: "somebody"}}, key)
	if err != nil {
		return "", err
	}
	return base64.StdEncoding.EncodeToString(
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})), nil
}

// certificateUntil is a certificate of its own key for somebody.example.com, in PEM and base64.
func certificateUntil(end time.Time) (string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", err
	}
	about := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"somebody.example.com"},
		NotBefore: end.AddDate(-100, 0, 0), NotAfter: end}
	der, err := x509.CreateCertificate(rand.Reader, about, about, &key.PublicKey, key)
	if err != nil {
		return "", err
	}
	return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), nil
}

// apply creates the objects of a manifest, in a namespace where they name none.
func (b *breaker) apply(ctx context.Context, namespace, manifest string) error {
	for part := range strings.SplitSeq(manifest, "\n---\n") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(part), &u.Object); err != nil {
			return fmt.Errorf("%w in\n%s", err, part)
		}
		gvk := u.GroupVersionKind()
		r, err := b.resource(gvk.GroupKind(), cmp.Or(u.GetNamespace(), namespace))
		if err != nil {
			return err
		}
		if _, err := r.Create(ctx, u, metav1.CreateOptions{}); err != nil {
			return err
		}
		if gvk.Kind == "ResourceQuota" {
			if err := counted(ctx, r, u.GetName()); err != nil {
				return err
			}
		}
	}
	return nil
}

// counted waits until a quota has its status: before, it limits nothing.
func counted(ctx context.Context, r dynamic.ResourceInterface, name string) error {
	ctx, cancel := expect.WithPatience(ctx, patience)
	defer cancel()
	return wait.PollUntilContextCancel(ctx, 200*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		u, err := r.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		hard, _, err := unstructured.NestedMap(u.Object, "status", "hard")
		return len(hard) > 0, err
	})
}

func (b *breaker) resource(kind schema.GroupKind, namespace string) (dynamic.ResourceInterface, error) {
	m, err := b.mapper.RESTMapping(kind)
	if err != nil {
		return nil, err
	}
	if m.Scope.Name() == meta.RESTScopeNameNamespace {
		return b.dynamic.Resource(m.Resource).Namespace(namespace), nil
	}
	return b.dynamic.Resource(m.Resource), nil
}

// plurals are those that are not the word and an s, and those of short words.
var plurals = map[string]string{"pvc": "persistentvolumeclaims", "pdb": "poddisruptionbudgets",
	"crd": "customresourcedefinitions", "ingress": "ingresses", "hpa": "horizontalpodautoscalers",
	"csr": "certificatesigningrequests", "quota": "resourcequotas", "networkpolicy": "networkpolicies"}

// resourceOf is resource for a kind in lower case or its short word.
func (b *breaker) resourceOf(kind, namespace string) (dynamic.ResourceInterface, error) {
	gvk, err := b.mapper.KindFor(schema.GroupVersionResource{Resource: cmp.Or(plurals[kind], kind+"s")})
	if err != nil {
		return nil, err
	}
	return b.resource(gvk.GroupKind(), namespace)
}

// changeAll makes the changes of a text, one a line, each when its object has settled, and what
// stepOf knows; none of an empty one.
func (b *breaker) changeAll(ctx context.Context, namespace, text string) error {
	for line := range strings.Lines(text) {
		if done, err := b.stepOf(ctx, namespace, line); err != nil {
			return err
		} else if done {
			continue
		}
		target, _, _ := strings.Cut(line, " ")
		b.settled(ctx, namespace, target)
		if err := b.change(ctx, namespace, line); err != nil {
			return err
		}
	}
	return nil
}

// change patches or deletes an object: "deployment/web {…}", "pod/web/resize {…}",
// "configmap/web delete".
func (b *breaker) change(ctx context.Context, namespace, text string) error {
	target, patch, _ := strings.Cut(strings.TrimSpace(text), " ")
	kind, rest, _ := strings.Cut(target, "/")
	name, subresource, _ := strings.Cut(rest, "/")
	r, err := b.resourceOf(kind, namespace)
	if err != nil {
		return err
	}
	if patch == "delete" {
		return r.Delete(ctx, name, metav1.DeleteOptions{})
	}
	_, err = r.Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{},
		strings.Fields(subresource)...)
	return err
}

// settled waits, patience at most, until an object has what its spec says; kinds without Pods are
// settled when they are there.
func (b *breaker) settled(ctx context.Context, namespace, target string) {
	ctx, cancel := expect.WithPatience(ctx, patience)
	defer cancel()
	kind, name, _ := strings.Cut(target, "/")
	name, _, _ = strings.Cut(name, "/")
	gvk, err := b.mapper.KindFor(schema.GroupVersionResource{Resource: kind + "s"})
	if err != nil {
		return // by another name of the kind: its answer is waited for
	}
	r, err := b.resource(gvk.GroupKind(), namespace)
	if err != nil {
		return
	}
	w, err := r.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil {
		return
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		if u, ok := e.Object.(*unstructured.Unstructured); ok && hasAll(u) {
			return
		}
	}
}

// hasAll reports whether the Pods that an object wants are ready, or a volume or claim is bound.
func hasAll(u *unstructured.Unstructured) bool {
	number := func(at ...string) int64 {
		n, _, _ := unstructured.NestedInt64(u.Object, at...) // 0 where there is none
		return n
	}
	switch u.GetKind() {
	case "Deployment", "StatefulSet", "ReplicaSet":
		return number("status", "readyReplicas") >= number("spec", "replicas") &&
			number("status", "observedGeneration") >= u.GetGeneration()
	case "DaemonSet":
		n := number("status", "desiredNumberScheduled")
		return n > 0 && number("status", "numberReady") >= n
	case "Job":
		return number("status", "active")+number("status", "succeeded")+number("status", "failed") > 0
	case "PersistentVolume", "PersistentVolumeClaim":
		phase, _, _ := unstructured.NestedString(u.Object, "status", "phase") // empty where there is none
		return phase == "Bound"
	}
	return true
}

// changes tells of changes of a namespace's Pods and events, until ctx ends.
func (b *breaker) changes(ctx context.Context, namespace string) <-chan struct{} {
	out := make(chan struct{}, 1)
	for _, resource := range []string{"pods", "events"} {
		w, err := b.dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: resource}).Namespace(
			namespace).Watch(ctx, metav1.ListOptions{})
		if err != nil {
			continue // it is asked again every second
		}
		go func() {
			defer w.Stop()
			for range w.ResultChan() {
				select {
				case out <- struct{}{}:
				default:
				}
			}
		}()
	}
	return out
}

// remove deletes a namespace and with it its Pods, which have a place on the nodes. Nobody waits
// for it.
func (b *breaker) remove(namespace string) {
	ctx, cancel := expect.WithPatience(context.Background(), patience)
	defer cancel()
	_ = b.client.CoreV1().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{}) // it may not be there
}

// mostPods is how many Pods of earlier breaks may still be ending when another is set up: the one
// node that takes Pods takes 110.
const mostPods = 80

// roomOnNodes waits, twice patience at most, until the Pods of breaks that were removed have ended,
// as far as that the next ones find a place.
func (b *breaker) roomOnNodes(ctx context.Context) {
	ctx, cancel := expect.WithPatience(ctx, 2*patience)
	defer cancel()
	_ = wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		l, err := b.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		return err == nil && len(l.Items) < mostPods, nil
	}) // without room the break is played all the same
}

// Package podcert gets certificates for Pods: it makes a key that never leaves the node, asks a signer by a PodCertificateRequest, and asks anew in time (KEP-4317).
//
// Chapter: furnished. In: projections of podCertificate, the node, its requests by a watch. Out: keys and chains as PEM; when to come back. A kubelet that
// starts anew asks anew, as keys are in memory alone.
package podcert

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"sync"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	certificatesinformers "k8s.io/client-go/informers/certificates/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/kubelet/volume"
)

// Deps are its neighbours.
type Deps struct {
	Client  kubernetes.Interface
	Node    func() *v1.Node // as the API has it; nil before it is registered
	Changed func(types.UID) // a signer has answered; must not block
	Now     func() time.Time
}

// Certificates are those of the node's Pods. The watch of requests begins with the first Pod that has one.
type Certificates struct {
	ctx context.Context
	d   Deps

	mu       sync.Mutex
	requests cache.SharedIndexInformer
	states   map[place]*state
}

// place is one source of one volume.
type place struct {
	pod    types.UID
	source string
}

// New returns it; the watch ends with ctx.
func New(ctx context.Context, d Deps) *Certificates {
	return &Certificates{ctx: ctx, d: d, states: map[place]*state{}}
}

// Credential implements volume.Certificates. Its error names what is waited for.
func (c *Certificates) Credential(ctx context.Context, pod *v1.Pod, source string, p *v1.PodCertificateProjection) (volume.Credential, error) {
	at, now := place{pod.UID, source}, c.d.Now()
	s := c.read(ctx, at, pod)
	do := next(s, p.SignerName, pod.Namespace, now)
	if do.ask {
		asked, err := c.ask(ctx, pod, p)
		switch {
		case err != nil && !do.use:
			return volume.Credential{}, fmt.Errorf("requesting a certificate of signer %s: %w", p.SignerName, err)
		case err != nil:
			klog.FromContext(ctx).Error(err, "Certificate not renewed, the old one is still good", "pod", klog.KObj(pod), "expires", s.held.expires)
		default:
			s.asked = asked
			c.mu.Lock()
			if c.states[at] != nil { // dropped meanwhile
				c.states[at] = &s
			}
			c.mu.Unlock()
			if !do.use {
				do.err = next(s, p.SignerName, pod.Namespace, now).err
			}
		}
	}
	if !do.use {
		return volume.Credential{}, errors.New(do.err)
	}
	return volume.Credential{Key: s.held.key, Chain: s.held.chain, Again: do.at}, nil
}

// Drop forgets a Pod's keys.
func (c *Certificates) Drop(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for at := range c.states {
		if at.pod == uid {
			delete(c.states, at)
		}
	}
}

// read returns what is known, with the signer's answer if there is one.
func (c *Certificates) read(ctx context.Context, at place, pod *v1.Pod) state {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.states[at]
	if s == nil {
		s = &state{}
		c.states[at] = s
	}
	if s.asked == nil || c.requests == nil {
		return *s
	}
	o, there, err := c.requests.GetStore().GetByKey(pod.Namespace + "/" + s.asked.name)
	s.asked.seen = there
	if err != nil || !there {
		return *s
	}
	answer(s, o.(*certificatesv1.PodCertificateRequest), c.d.Now())
	if s.refused != "" && s.held != nil && s.asked == nil {
		klog.FromContext(ctx).Error(errors.New(s.refused), "Certificate not renewed, the old one is still good", "pod", klog.KObj(pod), "expires", s.held.expires)
	}
	return *s
}

// answer takes a signer's last word into the state.
func answer(s *state, r *certificatesv1.PodCertificateRequest, now time.Time) {
	for i := range r.Status.Conditions {
		switch w := &r.Status.Conditions[i]; w.Type {
		case certificatesv1.PodCertificateRequestConditionTypeIssued:
			if r.Status.BeginRefreshAt == nil || r.Status.NotAfter == nil {
				continue // no answer that an API server lets in
			}
			s.held = &credential{key: s.asked.key, chain: certificates(r.Status.CertificateChain), refresh: r.Status.BeginRefreshAt.Time, expires: r.Status.NotAfter.Time}
			s.asked, s.refused = nil, ""
			return
		case certificatesv1.PodCertificateRequestConditionTypeDenied, certificatesv1.PodCertificateRequestConditionTypeFailed:
			how := map[string]string{certificatesv1.PodCertificateRequestConditionTypeDenied: "denied", certificatesv1.PodCertificateRequestConditionTypeFailed: "could not fulfil"}[w.Type]
			s.refused = fmt.Sprintf("signer %s %s PodCertificateRequest %s/%s: %s: %s", r.Spec.SignerName, how, r.Namespace, r.Name, w.Reason, w.Message)
			s.asked, s.notYet = nil, now.Add(afterRefusal)
			return
		}
	}
}

// certificates drops what stands between the certificates of a chain.
func certificates(chain string) []byte {
	var out bytes.Buffer
	for block, rest := pem.Decode([]byte(chain)); block != nil; block, rest = pem.Decode(rest) {
		out.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: block.Bytes}))
	}
	return out.Bytes()
}

// ask makes a key and the request for it.
func (c *Certificates) ask(ctx context.Context, pod *v1.Pod, p *v1.PodCertificateProjection) (*request, error) {
	node := c.d.Node()
	if node == nil {
		return nil, errors.New("the node is not registered yet")
	}
	c.watch(node.Name)
	account, err := c.d.Client.CoreV1().ServiceAccounts(pod.Namespace).Get(ctx, pod.Spec.ServiceAccountName, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	key, err := newKey(p.KeyType)
	if err != nil {
		return nil, err
	}
	stub, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	made, err := c.d.Client.CertificatesV1().PodCertificateRequests(pod.Namespace).Create(ctx, &certificatesv1.PodCertificateRequest{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, GenerateName: "req-" + pod.Name + "-",
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}},
		},
		Spec: certificatesv1.PodCertificateRequestSpec{
			SignerName: p.SignerName, PodName: pod.Name, PodUID: pod.UID, ServiceAccountName: account.Name, ServiceAccountUID: account.UID,
			NodeName: types.NodeName(node.Name), NodeUID: node.UID, MaxExpirationSeconds: p.MaxExpirationSeconds,
			StubPKCS10Request: stub, UnverifiedUserAnnotations: p.UserAnnotations,
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	return &request{name: made.Name, key: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), made: c.d.Now()}, nil
}

// watch begins to hear of this node's requests.
func (c *Certificates) watch(node string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.requests != nil {
		return
	}
	i := certificatesinformers.NewFilteredPodCertificateRequestInformer(c.d.Client, "", 0, cache.Indexers{}, func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", node).String()
	})
	tell := func(o any) {
		if r, ok := o.(*certificatesv1.PodCertificateRequest); ok {
			c.d.Changed(r.Spec.PodUID)
		}
	}
	// Adding fails only on an informer that has stopped.
	_, _ = i.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: tell, UpdateFunc: func(_, o any) { tell(o) }, DeleteFunc: tell})
	c.requests = i
	go i.RunWithContext(c.ctx)
}

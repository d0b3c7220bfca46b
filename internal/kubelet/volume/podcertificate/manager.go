// Package podcertificate gets certificates for Pods: it makes a key that never leaves the node,
// asks a signer by a PodCertificateRequest, and asks anew in time (KEP-4317).
//
// In: projections of podCertificate, the node, its requests by a watch. Out: keys and chains as
// PEM; when to come back. A kubelet that starts anew asks anew, as keys are in memory alone.
package podcertificate

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

// Deps is what a Manager works with.
type Deps struct {
	Client  kubernetes.Interface
	Node    func() *v1.Node // as the API has it; nil before it is registered
	Changed func(types.UID) // a signer has answered; must not block
	Now     func() time.Time
}

// Manager are those of the node's Pods. The watch of requests begins with the first Pod that has
// one.
type Manager struct {
	ctx context.Context
	d   Deps

	mu       sync.Mutex
	requests cache.SharedIndexInformer
	states   map[sourceKey]*state
}

// sourceKey is one source of one volume.
type sourceKey struct {
	pod    types.UID
	source string
}

// New returns it; the watch ends with ctx.
func New(ctx context.Context, d Deps) *Manager {
	return &Manager{ctx: ctx, d: d, states: map[sourceKey]*state{}}
}

// Credential implements volume.Certificates. Its error names what is waited for.
func (c *Manager) Credential(ctx context.Context, pod *v1.Pod, source string,
	p *v1.PodCertificateProjection) (volume.Credential, error) {
	at, now := sourceKey{pod.UID, source}, c.d.Now()
	s := c.stateOf(ctx, at, pod)
	do := decide(s, p.SignerName, pod.Namespace, now)
	if do.create {
		created, err := c.createRequest(ctx, pod, p)
		switch {
		case err != nil && !do.useCurrent:
			return volume.Credential{}, fmt.Errorf("requesting a certificate of signer %s: %w", p.SignerName, err)
		case err != nil:
			klog.FromContext(ctx).Error(err, "Certificate not renewed, the old one is still good",
				"pod", klog.KObj(pod), "expires", s.credential.expires)
		default:
			s.request = created
			c.mu.Lock()
			if c.states[at] != nil { // dropped meanwhile
				c.states[at] = &s
			}
			c.mu.Unlock()
			if !do.useCurrent {
				do.err = decide(s, p.SignerName, pod.Namespace, now).err
			}
		}
	}
	if !do.useCurrent {
		return volume.Credential{}, errors.New(do.err)
	}
	return volume.Credential{Key: s.credential.key, Chain: s.credential.chain, RefreshAt: do.checkAt}, nil
}

// UnregisterPod forgets a Pod's keys.
func (c *Manager) UnregisterPod(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for at := range c.states {
		if at.pod == uid {
			delete(c.states, at)
		}
	}
}

// stateOf returns what is known, with the signer's answer if there is one.
func (c *Manager) stateOf(ctx context.Context, at sourceKey, pod *v1.Pod) state {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.states[at]
	if s == nil {
		s = &state{}
		c.states[at] = s
	}
	if s.request == nil || c.requests == nil {
		return *s
	}
	o, found, err := c.requests.GetStore().GetByKey(pod.Namespace + "/" + s.request.name)
	s.request.seen = found
	if err != nil || !found {
		return *s
	}
	applyAnswer(s, o.(*certificatesv1.PodCertificateRequest), c.d.Now())
	if s.refused != "" && s.credential != nil && s.request == nil {
		klog.FromContext(ctx).Error(errors.New(s.refused), "Certificate not renewed, the old one is still good",
			"pod", klog.KObj(pod), "expires", s.credential.expires)
	}
	return *s
}

// applyAnswer takes a signer's last word into the state.
func applyAnswer(s *state, r *certificatesv1.PodCertificateRequest, now time.Time) {
	for i := range r.Status.Conditions {
		switch w := &r.Status.Conditions[i]; w.Type {
		case certificatesv1.PodCertificateRequestConditionTypeIssued:
			if r.Status.BeginRefreshAt == nil || r.Status.NotAfter == nil {
				continue // no answer that an API server lets in
			}
			s.credential = &credential{key: s.request.key, chain: certificateBlocks(r.Status.CertificateChain),
				refresh: r.Status.BeginRefreshAt.Time, expires: r.Status.NotAfter.Time}
			s.request, s.refused = nil, ""
			return
		case certificatesv1.PodCertificateRequestConditionTypeDenied,
			certificatesv1.PodCertificateRequestConditionTypeFailed:
			how := map[string]string{certificatesv1.PodCertificateRequestConditionTypeDenied: "denied",
				certificatesv1.PodCertificateRequestConditionTypeFailed: "could not fulfil"}[w.Type]
			s.refused = fmt.Sprintf("signer %s %s PodCertificateRequest %s/%s: %s: %s", r.Spec.SignerName, how,
				r.Namespace, r.Name, w.Reason, w.Message)
			s.request, s.retryAfter = nil, now.Add(retryDelayAfterDenial)
			return
		}
	}
}

// certificateBlocks drops what stands between the certificates of a chain.
func certificateBlocks(chain string) []byte {
	var out bytes.Buffer
	for block, rest := pem.Decode([]byte(chain)); block != nil; block, rest = pem.Decode(rest) {
		out.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: block.Bytes}))
	}
	return out.Bytes()
}

// createRequest makes a key and the request for it.
func (c *Manager) createRequest(ctx context.Context, pod *v1.Pod, p *v1.PodCertificateProjection) (*request, error) {
	node := c.d.Node()
	if node == nil {
		return nil, errors.New("the node is not registered yet")
	}
	c.watch(node.Name)
	account, err := c.d.Client.CoreV1().ServiceAccounts(pod.Namespace).Get(ctx, pod.Spec.ServiceAccountName,
		metav1.GetOptions{})
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
	created, err := c.d.Client.CertificatesV1().PodCertificateRequests(pod.Namespace).Create(ctx,
		&certificatesv1.PodCertificateRequest{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: pod.Namespace, GenerateName: "req-" + pod.Name + "-",
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}},
			},
			Spec: certificatesv1.PodCertificateRequestSpec{
				SignerName: p.SignerName, PodName: pod.Name, PodUID: pod.UID, ServiceAccountName: account.Name,
				ServiceAccountUID: account.UID,
				NodeName:          types.NodeName(node.Name), NodeUID: node.UID,
				MaxExpirationSeconds: p.MaxExpirationSeconds,
				StubPKCS10Request:    stub, UnverifiedUserAnnotations: p.UserAnnotations,
			},
		}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	return &request{name: created.Name, key: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}),
		createdAt: c.d.Now()}, nil
}

// watch begins to follow this node's requests.
func (c *Manager) watch(node string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.requests != nil {
		return
	}
	i := certificatesinformers.NewFilteredPodCertificateRequestInformer(c.d.Client, "", 0, cache.Indexers{},
		func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", node).String()
		})
	notify := func(o any) {
		if r, ok := o.(*certificatesv1.PodCertificateRequest); ok {
			c.d.Changed(r.Spec.PodUID)
		}
	}
	// Adding fails only on an informer that has stopped.
	_, _ = i.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: notify, UpdateFunc: func(_, o any) { notify(o) },
		DeleteFunc: notify})
	c.requests = i
	go i.RunWithContext(c.ctx)
}

package objectcache

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	certificatesinformers "k8s.io/client-go/informers/certificates/v1"
	"k8s.io/client-go/tools/cache"
)

// Bundles are the cluster's ClusterTrustBundles, watched from the time the first Pod asks for one
// (KEP-3257). Any authenticated user may read them all.
type Bundles struct {
	ctx context.Context
	d   Deps

	mu       sync.Mutex
	informer cache.SharedIndexInformer // nil: nobody has asked yet
	err      error                     // of the last list or watch
	readers  map[types.UID]bool
}

// NewBundles returns the bundles; their watch ends with ctx.
func NewBundles(ctx context.Context, d Deps) *Bundles {
	return &Bundles{ctx: ctx, d: d, readers: map[types.UID]bool{}}
}

// TrustAnchors are the certificates of the bundles that a projection chooses, each once, in an
// order that depends on nothing but them.
func (b *Bundles) TrustAnchors(ctx context.Context, uid types.UID, p *v1.ClusterTrustBundleProjection) ([]byte, error) {
	i, err := b.informerFor(ctx, uid)
	if err != nil {
		return nil, err
	}
	optional := p.Optional != nil && *p.Optional
	if p.Name != nil {
		o, found, err := i.GetStore().GetByKey(*p.Name)
		switch {
		case err != nil:
			return nil, err
		case found:
			return normalizePEM([]*certificatesv1.ClusterTrustBundle{o.(*certificatesv1.ClusterTrustBundle)}), nil
		case optional:
			return []byte{}, nil
		}
		return nil, fmt.Errorf("while getting ClusterTrustBundle: %w",
			apierrors.NewNotFound(certificatesv1.Resource("clustertrustbundle"), *p.Name))
	}
	selector, err := metav1.LabelSelectorAsSelector(p.LabelSelector)
	if err != nil {
		return nil, fmt.Errorf("while parsing label selector: %w", err)
	}
	chosen := selectBundles(i.GetStore().List(), *p.SignerName, selector)
	if len(chosen) == 0 && !optional {
		return nil, errors.New("combination of signerName and labelSelector matched zero ClusterTrustBundles")
	}
	return normalizePEM(chosen), nil
}

// UnregisterPod ends telling a Pod of changes.
func (b *Bundles) UnregisterPod(uid types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.readers, uid)
}

func selectBundles(all []any, signer string, selector labels.Selector) (out []*certificatesv1.ClusterTrustBundle) {
	for _, o := range all {
		if c := o.(*certificatesv1.ClusterTrustBundle); c.Spec.SignerName == signer &&
			selector.Matches(labels.Set(c.Labels)) {
			out = append(out, c)
		}
	}
	return out
}

// normalizePEM drops what is not a certificate, what stands there twice, and headers.
func normalizePEM(list []*certificatesv1.ClusterTrustBundle) []byte {
	blocks := map[string]bool{}
	for _, c := range list {
		for block, rest := pem.Decode([]byte(c.Spec.TrustBundle)); block != nil; block, rest = pem.Decode(rest) {
			if block.Type == "CERTIFICATE" {
				blocks[string(block.Bytes)] = true
			}
		}
	}
	out := []byte{}
	for _, der := range slices.Sorted(maps.Keys(blocks)) {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte(der)})...)
	}
	return out
}

// informerFor waits until the API server has told of its bundles, as long as for other objects, and
// notes who reads.
func (b *Bundles) informerFor(ctx context.Context, uid types.UID) (cache.SharedIndexInformer, error) {
	b.mu.Lock()
	b.readers[uid] = true
	if b.informer == nil {
		if err := b.startInformer(); err != nil {
			b.mu.Unlock()
			return nil, err
		}
	}
	i := b.informer
	b.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	if cache.WaitForCacheSync(ctx.Done(), i.HasSynced) {
		return i, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return nil, fmt.Errorf("listing ClusterTrustBundles: %w", b.err)
	}
	return nil, fmt.Errorf("the API server has not told of its ClusterTrustBundles within %s", waitTimeout)
}

// startInformer starts the watch. Locks are held.
func (b *Bundles) startInformer() error {
	i := certificatesinformers.NewClusterTrustBundleInformer(b.d.Client, 0, cache.Indexers{})
	err := i.SetWatchErrorHandler(func(_ *cache.Reflector, err error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.err = err
	})
	if err != nil {
		return err
	}
	if _, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { b.notifyPods() }, UpdateFunc: func(any, any) { b.notifyPods() },
		DeleteFunc: func(any) { b.notifyPods() },
	}); err != nil {
		return err
	}
	b.informer = i
	go i.RunWithContext(b.ctx)
	return nil
}

// notifyPods tells all readers: a new bundle may be one of those that a selector chooses.
func (b *Bundles) notifyPods() {
	b.mu.Lock()
	uids := slices.Collect(maps.Keys(b.readers))
	b.mu.Unlock()
	for _, uid := range uids {
		b.d.Changed(uid)
	}
}

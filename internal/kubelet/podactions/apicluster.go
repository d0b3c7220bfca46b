package podactions

import (
	"context"
	"errors"
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
)

// APICluster reads Services from a watch and RuntimeClasses on demand.
type APICluster struct {
	client   kubernetes.Interface
	factory  informers.SharedInformerFactory
	services corelisters.ServiceLister
	synced   func() bool

	mu       sync.Mutex
	handlers map[string]string // of RuntimeClasses, which never change
}

// NewAPICluster returns an APICluster; Start makes it watch.
func NewAPICluster(client kubernetes.Interface) *APICluster {
	f := informers.NewSharedInformerFactory(client, 0)
	s := f.Core().V1().Services()
	return &APICluster{client: client, factory: f, services: s.Lister(), synced: s.Informer().HasSynced,
		handlers: map[string]string{}}
}

// Start watches until ctx ends.
func (a *APICluster) Start(ctx context.Context) { a.factory.Start(ctx.Done()) }

// Services returns those of a namespace, and the kubernetes Service of the default one.
func (a *APICluster) Services(namespace string) ([]*v1.Service, error) {
	if !a.synced() {
		return nil, errors.New("services have not yet been read at least once, cannot construct envs")
	}
	list, err := a.services.Services(namespace).List(labels.Everything())
	if err != nil || namespace == v1.NamespaceDefault {
		return list, err
	}
	api, err := a.services.Services(v1.NamespaceDefault).Get("kubernetes")
	if apierrors.IsNotFound(err) {
		return list, nil
	}
	return append(list[:len(list):len(list)], api), err
}

// RuntimeHandler is the handler of a RuntimeClass.
func (a *APICluster) RuntimeHandler(ctx context.Context, class string) (string, error) {
	if class == "" {
		return "", nil
	}
	a.mu.Lock()
	h, known := a.handlers[class]
	a.mu.Unlock()
	if known {
		return h, nil
	}
	rc, err := a.client.NodeV1().RuntimeClasses().Get(ctx, class, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("failed to get sandbox runtime: %w", err)
	}
	a.mu.Lock()
	a.handlers[class] = rc.Handler
	a.mu.Unlock()
	return rc.Handler, nil
}

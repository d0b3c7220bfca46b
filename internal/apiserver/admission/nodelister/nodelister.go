// Package nodelister looks up the Nodes of bound Pods for admission plugins that allow an update or
// not by what the Pod's node is.
//
// In: the informers and the client that the API server gives a plugin, a Node's name. Out: the
// Node. To add such a plugin: embed a Handler, and ask Node.
package nodelister

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
)

// Handler is the part that such plugins embed. Safe for concurrent use once it is initialized.
type Handler struct {
	*admission.Handler
	plugin string
	nodes  corelisters.NodeLister
	client kubernetes.Interface
}

// New makes the part of a plugin of that name, for updates.
func New(plugin string) Handler {
	return Handler{Handler: admission.NewHandler(admission.Update), plugin: plugin}
}

// SetExternalKubeInformerFactory implements initializer.WantsExternalKubeInformerFactory.
func (h *Handler) SetExternalKubeInformerFactory(f informers.SharedInformerFactory) {
	i := f.Core().V1().Nodes()
	h.nodes = i.Lister()
	h.SetReadyFunc(i.Informer().HasSynced)
}

// SetExternalKubeClientSet implements initializer.WantsExternalKubeClientSet.
func (h *Handler) SetExternalKubeClientSet(c kubernetes.Interface) { h.client = c }

// ValidateInitialization implements admission.InitializationValidator.
func (h *Handler) ValidateInitialization() error {
	if h.nodes == nil || h.client == nil {
		return fmt.Errorf("%s admission: no Nodes", h.plugin)
	}
	return nil
}

// Node returns the Node of that name, not to be changed, once Nodes are known. It asks the store
// about one that is not known yet: the informer may be behind. An error is the text of a refusal.
func (h *Handler) Node(ctx context.Context, name string) (*corev1.Node, error) {
	if !h.WaitForReady() {
		return nil, errors.New("not yet ready to handle request")
	}
	node, err := h.nodes.Get(name)
	if apierrors.IsNotFound(err) {
		node, err = h.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	}
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("node %q not found", name)
	}
	return node, err
}

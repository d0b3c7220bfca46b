package dramanager

import (
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/kube-scheduler/framework"
)

// CSIManager is the framework's view of CSINodes, for plugins that ask the Handle for it.
type CSIManager struct {
	nodes storagelisters.CSINodeLister
}

var _ framework.CSIManager = (*CSIManager)(nil)

// NewCSIManager makes one; the caller starts the informers.
func NewCSIManager(all informers.SharedInformerFactory) *CSIManager {
	return &CSIManager{all.Storage().V1().CSINodes().Lister()}
}

// CSINodes lists them.
func (c *CSIManager) CSINodes() framework.CSINodeLister { return csiNodeLister{c.nodes} }

type csiNodeLister struct{ storagelisters.CSINodeLister }

// List lists all.
func (c csiNodeLister) List() ([]*storagev1.CSINode, error) {
	return c.CSINodeLister.List(labels.Everything())
}

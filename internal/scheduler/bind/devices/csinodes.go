package devices

import (
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/kube-scheduler/framework"
)

// CSI is the framework's view of CSINodes, for plugins that ask the Handle for it.
type CSI struct {
	nodes storagelisters.CSINodeLister
}

var _ framework.CSIManager = (*CSI)(nil)

// NewCSI makes it; the informers' owner starts them.
func NewCSI(all informers.SharedInformerFactory) *CSI {
	return &CSI{all.Storage().V1().CSINodes().Lister()}
}

// CSINodes lists them.
func (c *CSI) CSINodes() framework.CSINodeLister { return csiNodes{c.nodes} }

type csiNodes struct{ storagelisters.CSINodeLister }

// List lists all.
func (c csiNodes) List() ([]*storagev1.CSINode, error) {
	return c.CSINodeLister.List(labels.Everything())
}

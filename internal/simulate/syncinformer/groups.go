package syncinformer

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers/admissionregistration"
	"k8s.io/client-go/informers/apiserverinternal"
	"k8s.io/client-go/informers/apps"
	"k8s.io/client-go/informers/autoscaling"
	"k8s.io/client-go/informers/batch"
	"k8s.io/client-go/informers/certificates"
	"k8s.io/client-go/informers/coordination"
	"k8s.io/client-go/informers/core"
	"k8s.io/client-go/informers/discovery"
	"k8s.io/client-go/informers/events"
	"k8s.io/client-go/informers/extensions"
	"k8s.io/client-go/informers/flowcontrol"
	"k8s.io/client-go/informers/lifecycle"
	"k8s.io/client-go/informers/networking"
	"k8s.io/client-go/informers/node"
	"k8s.io/client-go/informers/policy"
	"k8s.io/client-go/informers/rbac"
	"k8s.io/client-go/informers/resource"
	"k8s.io/client-go/informers/scheduling"
	"k8s.io/client-go/informers/storage"
	"k8s.io/client-go/informers/storagemigration"
)

// Admissionregistration implements informers.SharedInformerFactory.
func (f *Factory) Admissionregistration() admissionregistration.Interface {
	return admissionregistration.New(f, metav1.NamespaceAll, nil)
}

// Internal implements informers.SharedInformerFactory.
func (f *Factory) Internal() apiserverinternal.Interface {
	return apiserverinternal.New(f, metav1.NamespaceAll, nil)
}

// Apps implements informers.SharedInformerFactory.
func (f *Factory) Apps() apps.Interface { return apps.New(f, metav1.NamespaceAll, nil) }

// Autoscaling implements informers.SharedInformerFactory.
func (f *Factory) Autoscaling() autoscaling.Interface {
	return autoscaling.New(f, metav1.NamespaceAll, nil)
}

// Batch implements informers.SharedInformerFactory.
func (f *Factory) Batch() batch.Interface { return batch.New(f, metav1.NamespaceAll, nil) }

// Certificates implements informers.SharedInformerFactory.
func (f *Factory) Certificates() certificates.Interface {
	return certificates.New(f, metav1.NamespaceAll, nil)
}

// Coordination implements informers.SharedInformerFactory.
func (f *Factory) Coordination() coordination.Interface {
	return coordination.New(f, metav1.NamespaceAll, nil)
}

// Core implements informers.SharedInformerFactory.
func (f *Factory) Core() core.Interface { return core.New(f, metav1.NamespaceAll, nil) }

// Discovery implements informers.SharedInformerFactory.
func (f *Factory) Discovery() discovery.Interface { return discovery.New(f, metav1.NamespaceAll, nil) }

// Events implements informers.SharedInformerFactory.
func (f *Factory) Events() events.Interface { return events.New(f, metav1.NamespaceAll, nil) }

// Extensions implements informers.SharedInformerFactory.
func (f *Factory) Extensions() extensions.Interface {
	return extensions.New(f, metav1.NamespaceAll, nil)
}

// Flowcontrol implements informers.SharedInformerFactory.
func (f *Factory) Flowcontrol() flowcontrol.Interface {
	return flowcontrol.New(f, metav1.NamespaceAll, nil)
}

// Lifecycle implements informers.SharedInformerFactory.
func (f *Factory) Lifecycle() lifecycle.Interface { return lifecycle.New(f, metav1.NamespaceAll, nil) }

// Networking implements informers.SharedInformerFactory.
func (f *Factory) Networking() networking.Interface {
	return networking.New(f, metav1.NamespaceAll, nil)
}

// Node implements informers.SharedInformerFactory.
func (f *Factory) Node() node.Interface { return node.New(f, metav1.NamespaceAll, nil) }

// Policy implements informers.SharedInformerFactory.
func (f *Factory) Policy() policy.Interface { return policy.New(f, metav1.NamespaceAll, nil) }

// Rbac implements informers.SharedInformerFactory.
func (f *Factory) Rbac() rbac.Interface { return rbac.New(f, metav1.NamespaceAll, nil) }

// Resource implements informers.SharedInformerFactory.
func (f *Factory) Resource() resource.Interface { return resource.New(f, metav1.NamespaceAll, nil) }

// Scheduling implements informers.SharedInformerFactory.
func (f *Factory) Scheduling() scheduling.Interface {
	return scheduling.New(f, metav1.NamespaceAll, nil)
}

// Storage implements informers.SharedInformerFactory.
func (f *Factory) Storage() storage.Interface { return storage.New(f, metav1.NamespaceAll, nil) }

// Storagemigration implements informers.SharedInformerFactory.
func (f *Factory) Storagemigration() storagemigration.Interface {
	return storagemigration.New(f, metav1.NamespaceAll, nil)
}

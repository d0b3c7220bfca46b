package admission

import (
	"io"

	"k8s.io/apiserver/pkg/admission"

	"github.com/gantry-project/gantry/internal/apiserver/admission/certificates"
	"github.com/gantry-project/gantry/internal/apiserver/admission/claimresize"
	"github.com/gantry-project/gantry/internal/apiserver/admission/ingressclass"
	"github.com/gantry-project/gantry/internal/apiserver/admission/limitranger"
	"github.com/gantry-project/gantry/internal/apiserver/admission/noderestriction"
	"github.com/gantry-project/gantry/internal/apiserver/admission/podresize"
	"github.com/gantry-project/gantry/internal/apiserver/admission/podsecurity"
	"github.com/gantry-project/gantry/internal/apiserver/admission/priority"
	"github.com/gantry-project/gantry/internal/apiserver/admission/resourcequota"
	"github.com/gantry-project/gantry/internal/apiserver/admission/runtimeclass"
	"github.com/gantry-project/gantry/internal/apiserver/admission/serviceaccount"
	"github.com/gantry-project/gantry/internal/apiserver/admission/storageclass"
	"github.com/gantry-project/gantry/internal/apiserver/admission/storageinuse"
	"github.com/gantry-project/gantry/internal/apiserver/admission/taintnodes"
	"github.com/gantry-project/gantry/internal/apiserver/admission/tolerationseconds"
	"github.com/gantry-project/gantry/internal/apiserver/admission/topologylabels"
)

// Plugin is a name of upstream's and what makes the plugin.
type Plugin struct {
	Name    string
	Factory admission.Factory
}

// Plugins are in upstream's order.
func Plugins(o Options) []Plugin {
	all := []Plugin{
		{"LimitRanger", plain(limitranger.New)},
		{"ServiceAccount", plain(serviceaccount.New)},
		{"NodeRestriction", plain(noderestriction.New)},
		{"TaintNodesByCondition", plain(taintnodes.New)},
		{"PodSecurity", func(io.Reader) (admission.Interface, error) { return podsecurity.New() }},
		{"Priority", plain(priority.New)},
		{"DefaultTolerationSeconds", plain(tolerationseconds.New)},
		{"DefaultStorageClass", plain(storageclass.New)},
		{"PersistentVolumeClaimResize", plain(claimresize.New)},
		{"RuntimeClass", plain(runtimeclass.New)},
		{"CertificateApproval", plain(certificates.NewApproval)},
		{"CertificateSigning", plain(certificates.NewSigning)},
		{"ClusterTrustBundleAttest", plain(certificates.NewAttest)},
		{"CertificateSubjectRestriction", plain(certificates.NewSubject)},
		{"DefaultIngressClass", plain(ingressclass.New)},
		{"PodTopologyLabels", plain(topologylabels.New)},
		{"PodResize", plain(podresize.New)},
		{"ResourceQuota", resourcequota.New},
	}
	if o.ProtectStorage {
		all = append(all, Plugin{"StorageObjectInUseProtection", plain(storageinuse.New)})
	}
	return all
}

// Options switch what does not always fit.
type Options struct {
	// ProtectStorage puts finalizers on PersistentVolumes and claims so that they are not deleted while in use. It needs the protection
	// controllers, which take the finalizers off; without them claims would never go.
	ProtectStorage bool
}

// plain adapts a constructor that needs no configuration and cannot fail.
func plain[T admission.Interface](make func() T) admission.Factory {
	return func(io.Reader) (admission.Interface, error) { return make(), nil }
}

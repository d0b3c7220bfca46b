package admission

import (
	"io"

	"k8s.io/apiserver/pkg/admission"

	"github.com/gantry-project/gantry/internal/apiserver/admission/certificates"
	"github.com/gantry-project/gantry/internal/apiserver/admission/defaultingressclass"
	"github.com/gantry-project/gantry/internal/apiserver/admission/defaultstorageclass"
	"github.com/gantry-project/gantry/internal/apiserver/admission/defaulttolerationseconds"
	"github.com/gantry-project/gantry/internal/apiserver/admission/limitranger"
	"github.com/gantry-project/gantry/internal/apiserver/admission/nodedeclaredfeatures"
	"github.com/gantry-project/gantry/internal/apiserver/admission/noderestriction"
	"github.com/gantry-project/gantry/internal/apiserver/admission/nodetaint"
	"github.com/gantry-project/gantry/internal/apiserver/admission/persistentvolumeclaimresize"
	"github.com/gantry-project/gantry/internal/apiserver/admission/podgroupprotection"
	"github.com/gantry-project/gantry/internal/apiserver/admission/podresize"
	"github.com/gantry-project/gantry/internal/apiserver/admission/podsecurity"
	"github.com/gantry-project/gantry/internal/apiserver/admission/podtopologylabels"
	"github.com/gantry-project/gantry/internal/apiserver/admission/priority"
	"github.com/gantry-project/gantry/internal/apiserver/admission/resourcequota"
	"github.com/gantry-project/gantry/internal/apiserver/admission/runtimeclass"
	"github.com/gantry-project/gantry/internal/apiserver/admission/serviceaccount"
	"github.com/gantry-project/gantry/internal/apiserver/admission/storageobjectinuseprotection"
)

// Plugin is a name of upstream's and what makes the plugin.
type Plugin struct {
	Name    string
	Factory admission.Factory
}

// Plugins are in upstream's order.
func Plugins(o Options) []Plugin {
	all := []Plugin{
		{"LimitRanger", newFactory(limitranger.New)},
		{"ServiceAccount", newFactory(serviceaccount.New)},
		{"NodeRestriction", newFactory(func() *noderestriction.Plugin { return noderestriction.New(o.VolumeHealth) })},
		{"TaintNodesByCondition", newFactory(nodetaint.New)},
		{"PodSecurity", func(io.Reader) (admission.Interface, error) { return podsecurity.New() }},
		{"Priority", newFactory(priority.New)},
		{"DefaultTolerationSeconds", newFactory(defaulttolerationseconds.New)},
		{"DefaultStorageClass", newFactory(defaultstorageclass.New)},
		{"PodGroupProtection", newFactory(podgroupprotection.New)},
		{"PersistentVolumeClaimResize", newFactory(persistentvolumeclaimresize.New)},
		{"RuntimeClass", newFactory(runtimeclass.New)},
		{"CertificateApproval", newFactory(certificates.NewApproval)},
		{"CertificateSigning", newFactory(certificates.NewSigning)},
		{"ClusterTrustBundleAttest", newFactory(certificates.NewClusterTrustBundleAttest)},
		{"CertificateSubjectRestriction", newFactory(certificates.NewSubjectRestriction)},
		{"DefaultIngressClass", newFactory(defaultingressclass.New)},
		{"PodTopologyLabels", newFactory(podtopologylabels.New)},
		{"NodeDeclaredFeatureValidator", newFactory(nodedeclaredfeatures.New)},
		{"PodResize", newFactory(podresize.New)},
		{"ResourceQuota", resourcequota.New},
	}
	if o.ProtectStorage {
		all = append(all, Plugin{"StorageObjectInUseProtection", newFactory(storageobjectinuseprotection.New)})
	}
	return all
}

// Options switch what does not always fit.
type Options struct {
	// ProtectStorage puts finalizers on PersistentVolumes and claims so that they are not deleted
	// while in use. It needs the protection controllers, which take the finalizers off; without
	// them claims would never go.
	ProtectStorage bool
	// VolumeHealth lets nodes write the status of their CSINode (gate CSIVolumeHealth).
	VolumeHealth bool
}

// newFactory adapts a constructor that needs no configuration and cannot fail.
func newFactory[T admission.Interface](make func() T) admission.Factory {
	return func(io.Reader) (admission.Interface, error) { return make(), nil }
}

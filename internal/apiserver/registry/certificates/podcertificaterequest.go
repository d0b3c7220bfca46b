package certificates

import (
	"context"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/gantry-project/gantry/internal/apiserver/registry/printers"
	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

// podCertificateRequests is the row of PodCertificateRequests: a kubelet asks a signer for a Pod's
// certificate (KEP-4317).
func podCertificateRequests() resourcedef.Kind {
	as := func(o runtime.Object) *certificatesv1.PodCertificateRequest {
		return o.(*certificatesv1.PodCertificateRequest)
	}
	k := resourcedef.Kind{
		Group: certificatesv1.GroupName, Version: "v1", Resource: "podcertificaterequests",
		Singular: "podcertificaterequest", Kind: "PodCertificateRequest",
		Types: typed.NewTypes[certificatesv1.PodCertificateRequest, certificatesv1.PodCertificateRequestList](),
		Rules: resourcedef.Rules{
			Default: func(o runtime.Object) {
				if s := &as(o).Spec; s.MaxExpirationSeconds == nil {
					s.MaxExpirationSeconds = ptr.To[int32](86400)
				}
			},
			PrepareStatus: func(_ context.Context, o, old runtime.Object) {
				stampPodCertificateRequest(as(o), as(old))
			},
			Validate: func(_ context.Context, o runtime.Object) field.ErrorList { return validatePodRequest(as(o)) },
			ValidateUpdate: func(_ context.Context, o, old runtime.Object) field.ErrorList {
				return validatePodRequestUpdate(as(o), as(old))
			},
			ValidateStatus: func(_ context.Context, o, old runtime.Object) field.ErrorList {
				return validatePodRequestStatus(as(o), as(old), metav1.Now().Time)
			},
			Fields: func(o runtime.Object) fields.Set {
				s := &as(o).Spec
				return fields.Set{"spec.signerName": s.SignerName, "spec.podName": s.PodName,
					"spec.nodeName": string(s.NodeName)}
			},
		},
	}
	k.Types.Namespaced, k.Types.HasStatus, k.Types.NoGenerate = true, true, true
	k.Types.StatusResetFields = []string{"metadata"}
	spec := certificatesv1.PodCertificateRequestSpec{}.SwaggerDoc()
	k.Table = resourcedef.Table{
		Columns: []metav1.TableColumnDefinition{
			printers.NameColumn(), printers.StringColumn("PodName", spec["podName"]),
			printers.StringColumn("ServiceAccountName", spec["serviceAccountName"]),
			printers.StringColumn("NodeName", spec["nodeName"]),
			printers.StringColumn("SignerName", spec["signerName"]),
			printers.StringColumn("State", "Is the request Pending, Issued, Denied, or Failed?"),
			printers.StringColumn("UnverifiedUserAnnotations", spec["unverifiedUserAnnotations"]),
		},
		Row: typed.RowFunc(func(r *certificatesv1.PodCertificateRequest, _ resourcedef.RowOptions) []any {
			s := &r.Spec
			return []any{r.Name, s.PodName, s.ServiceAccountName, string(s.NodeName), s.SignerName,
				podCertificateRequestState(r), printers.FormatLabels(s.UnverifiedUserAnnotations)}
		}),
	}
	return k
}

// podCertificateRequestState is Issued, Denied, Failed or, before, Pending.
func podCertificateRequestState(r *certificatesv1.PodCertificateRequest) string {
	for i := range r.Status.Conditions {
		if t := r.Status.Conditions[i].Type; isFinal(t) {
			return t
		}
	}
	return "Pending"
}

// isFinal tells whether a condition of the type is the signer's last word.
func isFinal(t string) bool {
	switch t {
	case certificatesv1.PodCertificateRequestConditionTypeIssued,
		certificatesv1.PodCertificateRequestConditionTypeDenied,
		certificatesv1.PodCertificateRequestConditionTypeFailed:
		return true
	}
	return false
}

// stampPodCertificateRequest gives new conditions of known types their time.
func stampPodCertificateRequest(r, old *certificatesv1.PodCertificateRequest) {
	for i := range r.Status.Conditions {
		c := &r.Status.Conditions[i]
		if !isFinal(c.Type) || !c.LastTransitionTime.IsZero() {
			continue
		}
		c.LastTransitionTime = metav1.Now()
		for _, previous := range old.Status.Conditions {
			if previous.Type == c.Type && previous.Status == c.Status {
				c.LastTransitionTime = previous.LastTransitionTime
			}
		}
	}
}

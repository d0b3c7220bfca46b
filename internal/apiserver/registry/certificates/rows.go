package certificates

import (
	"context"
	"sort"

	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/gantry-project/gantry/internal/apiserver/registry/column"
	"github.com/gantry-project/gantry/internal/apiserver/registry/kind"
)

// plainRows are the rows of certificates.k8s.io/v1.
func plainRows() []kind.Kind {
	spec := certificatesv1beta1.CertificateSigningRequestSpec{}.SwaggerDoc() // upstream's columns are described by the older type
	k := kind.Kind{
		Group: certificatesv1.GroupName, Version: "v1", Resource: "certificatesigningrequests", Singular: "certificatesigningrequest", Kind: "CertificateSigningRequest",
		Names: kind.Names{Short: []string{"csr"}},
		Types: types[certificatesv1.CertificateSigningRequest, certificatesv1.CertificateSigningRequestList](),
		Rules: kind.Rules{
			PrepareCreate: func(ctx context.Context, o runtime.Object) {
				signRequest(ctx, o.(*certificatesv1.CertificateSigningRequest))
			},
			PrepareUpdate: func(_ context.Context, o, old runtime.Object) {
				o.(*certificatesv1.CertificateSigningRequest).Spec = old.(*certificatesv1.CertificateSigningRequest).Spec
			},
			PrepareStatus: func(_ context.Context, o, old runtime.Object) {
				keepApproval(o.(*certificatesv1.CertificateSigningRequest), old.(*certificatesv1.CertificateSigningRequest))
			},
			Fields: func(o runtime.Object) fields.Set {
				return fields.Set{"spec.signerName": o.(*certificatesv1.CertificateSigningRequest).Spec.SignerName}
			},
			AllowUnconditionalUpdate: true,
		},
		Subresources: approval,
	}
	k.Types.HasStatus, k.Types.NoGenerate = true, true
	k.Table = kind.Table{
		Columns: []metav1.TableColumnDefinition{
			column.Name(), column.Age(), column.Def("SignerName", spec["signerName"]), column.Def("Requestor", spec["request"]),
			column.Def("RequestedDuration", spec["expirationSeconds"]), column.Def("Condition", certificatesv1beta1.CertificateSigningRequestStatus{}.SwaggerDoc()["conditions"]),
		},
		Row: row(func(c *certificatesv1.CertificateSigningRequest, o kind.RowOptions) []any {
			life := "<none>"
			if s := c.Spec.ExpirationSeconds; s != nil {
				life = column.Until(seconds(*s))
			}
			return []any{c.Name, column.Since(c.CreationTimestamp, o.Now), c.Spec.SignerName, c.Spec.Username, life, requestState(&c.Status)}
		}),
	}
	return []kind.Kind{k}
}

// signRequest writes who asks into the request; clients cannot.
func signRequest(ctx context.Context, c *certificatesv1.CertificateSigningRequest) {
	s := &c.Spec
	s.Username, s.UID, s.Groups, s.Extra = "", "", nil, nil
	u, ok := request.UserFrom(ctx)
	if !ok {
		return
	}
	s.Username, s.UID, s.Groups = u.GetName(), u.GetUID(), u.GetGroups()
	if extra := u.GetExtra(); len(extra) > 0 {
		s.Extra = map[string]certificatesv1.ExtraValue{}
		for k, v := range extra {
			s.Extra[k] = v
		}
	}
}

// keepApproval leaves approvals and denials as they are stored, whatever a signer sent of them. One added or left out is refused: keptConditions.
func keepApproval(c, old *certificatesv1.CertificateSigningRequest) {
	for _, t := range []certificatesv1.RequestConditionType{certificatesv1.CertificateApproved, certificatesv1.CertificateDenied} {
		was := conditions(old, t)
		for i := range c.Status.Conditions {
			if x := &c.Status.Conditions[i]; x.Type == t && len(was) > 0 {
				*x, was = was[0], was[1:]
			}
		}
	}
	stamp(c, old)
}

// stamp gives conditions the times they are due.
func stamp(c, old *certificatesv1.CertificateSigningRequest) {
	now := metav1.Now()
	for i := range c.Status.Conditions {
		x := &c.Status.Conditions[i]
		if x.LastUpdateTime.IsZero() {
			x.LastUpdateTime = now
		}
		if !x.LastTransitionTime.IsZero() {
			continue
		}
		x.LastTransitionTime = now
		for _, was := range old.Status.Conditions {
			if was.Type == x.Type && was.Status == x.Status && !was.LastTransitionTime.IsZero() {
				x.LastTransitionTime = was.LastTransitionTime
			}
		}
	}
}

func requestState(s *certificatesv1.CertificateSigningRequestStatus) string {
	state := map[certificatesv1.RequestConditionType]bool{}
	for _, c := range s.Conditions {
		state[c.Type] = true
	}
	var out []string
	switch {
	case state[certificatesv1.CertificateDenied]:
		out = append(out, "Denied")
	case state[certificatesv1.CertificateApproved]:
		out = append(out, "Approved")
	default:
		out = append(out, "Pending")
	}
	if state[certificatesv1.CertificateFailed] {
		out = append(out, "Failed")
	}
	if len(s.Certificate) > 0 {
		out = append(out, "Issued")
	}
	sort.Strings(out[1:])
	return join(out)
}

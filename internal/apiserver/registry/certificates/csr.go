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

	"github.com/gantry-project/gantry/internal/apiserver/registry/printers"
	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

// csrTable are the rows of certificates.k8s.io/v1.
func csrTable() []resourcedef.Kind {
	// upstream's columns are described by the older type
	spec := certificatesv1beta1.CertificateSigningRequestSpec{}.SwaggerDoc()
	k := resourcedef.Kind{
		Group: certificatesv1.GroupName, Version: "v1", Resource: "certificatesigningrequests",
		Singular: "certificatesigningrequest", Kind: "CertificateSigningRequest",
		Names: resourcedef.Names{Short: []string{"csr"}},
		Types: typed.NewTypes[certificatesv1.CertificateSigningRequest, certificatesv1.CertificateSigningRequestList](),
		Rules: resourcedef.Rules{
			PrepareCreate: func(ctx context.Context, o runtime.Object) {
				certificateSigningRequests(ctx, o.(*certificatesv1.CertificateSigningRequest))
			},
			PrepareUpdate: func(_ context.Context, o, old runtime.Object) {
				o.(*certificatesv1.CertificateSigningRequest).Spec =
					old.(*certificatesv1.CertificateSigningRequest).Spec
			},
			PrepareStatus: func(_ context.Context, o, old runtime.Object) {
				keepApprovalConditions(o.(*certificatesv1.CertificateSigningRequest),
					old.(*certificatesv1.CertificateSigningRequest))
			},
			Fields: func(o runtime.Object) fields.Set {
				return fields.Set{"spec.signerName": o.(*certificatesv1.CertificateSigningRequest).Spec.SignerName}
			},
			AllowUnconditionalUpdate: true,
		},
		Subresources: approval,
	}
	k.Types.HasStatus, k.Types.NoGenerate = true, true
	k.Types.ResetFields = []string{"spec"} // it never changes
	k.Types.StatusResetFields = []string{"status.conditions"}
	k.Table = resourcedef.Table{
		Columns: []metav1.TableColumnDefinition{
			printers.NameColumn(), printers.AgeColumn(), printers.StringColumn("SignerName", spec["signerName"]),
			printers.StringColumn("Requestor", spec["request"]),
			printers.StringColumn("RequestedDuration", spec["expirationSeconds"]),
			printers.StringColumn("Condition",
				certificatesv1beta1.CertificateSigningRequestStatus{}.SwaggerDoc()["conditions"]),
		},
		Row: typed.RowFunc(func(c *certificatesv1.CertificateSigningRequest, o resourcedef.RowOptions) []any {
			life := "<none>"
			if s := c.Spec.ExpirationSeconds; s != nil {
				life = printers.TimestampUntil(seconds(*s))
			}
			return []any{c.Name, printers.TimestampSince(c.CreationTimestamp, o.Now), c.Spec.SignerName,
				c.Spec.Username, life, requestState(&c.Status)}
		}),
	}
	return []resourcedef.Kind{k}
}

// certificateSigningRequests writes who asks into the request; clients cannot.
func certificateSigningRequests(ctx context.Context, c *certificatesv1.CertificateSigningRequest) {
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

// keepApprovalConditions leaves approvals and denials as they are stored, whatever a signer sent of
// them. One added or left out is refused: validateConditionsKept.
func keepApprovalConditions(c, old *certificatesv1.CertificateSigningRequest) {
	for _, t := range []certificatesv1.RequestConditionType{certificatesv1.CertificateApproved,
		certificatesv1.CertificateDenied} {
		previous := conditions(old, t)
		for i := range c.Status.Conditions {
			if x := &c.Status.Conditions[i]; x.Type == t && len(previous) > 0 {
				*x, previous = previous[0], previous[1:]
			}
		}
	}
	setConditionTimes(c, old)
}

// setConditionTimes gives conditions the times they are due.
func setConditionTimes(c, old *certificatesv1.CertificateSigningRequest) {
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
		for _, previous := range old.Status.Conditions {
			if previous.Type == x.Type && previous.Status == x.Status && !previous.LastTransitionTime.IsZero() {
				x.LastTransitionTime = previous.LastTransitionTime
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
	return joinUsages(out)
}

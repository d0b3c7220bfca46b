package certificates

import (
	"context"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
)

// Kinds are the rows of this package.
func Kinds() []resourcedef.Kind {
	rows := csrTable()
	for i := range rows {
		if rows[i].Resource != "certificatesigningrequests" {
			continue
		}
		r := &rows[i].Rules
		r.ValidateName = func(string, bool) []string { return nil } // the library's rule for names is enough
		r.Validate = func(_ context.Context, o runtime.Object) field.ErrorList {
			return validate(o.(*certificatesv1.CertificateSigningRequest))
		}
		r.ValidateStatus = func(ctx context.Context, o, old runtime.Object) field.ErrorList {
			info, ok := request.RequestInfoFrom(ctx)
			approving := ok && info.Subresource == "approval"
			return validateStatus(o.(*certificatesv1.CertificateSigningRequest),
				old.(*certificatesv1.CertificateSigningRequest), approving)
		}
	}
	return append(rows, bundles(), podCertificateRequests())
}

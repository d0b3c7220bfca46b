package certificates

import (
	"context"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
)

func seconds(n int32) time.Duration { return time.Duration(n) * time.Second }

func joinUsages(list []string) string { return strings.Join(list, ",") }

// approval makes the endpoint that approves and denies.
func approval(d resourcedef.Deps) map[string]rest.Storage {
	status, ok := d.Status.(resourcedef.PartUpdater)
	if !ok {
		return nil
	}
	return map[string]rest.Storage{"approval": &approvals{store: d.Store, status: status}}
}

// approvals writes the conditions Approved and Denied and nothing else.
type approvals struct {
	store  rest.StandardStorage
	status resourcedef.PartUpdater
}

func (a *approvals) New() runtime.Object { return &certificatesv1.CertificateSigningRequest{} }

// Destroy leaves the shared store to its main endpoint.
func (a *approvals) Destroy() {}

func (a *approvals) Get(ctx context.Context, name string, o *metav1.GetOptions) (runtime.Object, error) {
	return a.store.Get(ctx, name, o)
}

// Update takes the conditions of the object sent and keeps everything else of the one stored.
func (a *approvals) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo,
	create rest.ValidateObjectFunc, update rest.ValidateObjectUpdateFunc, _ bool,
	o *metav1.UpdateOptions) (runtime.Object, bool, error) {
	out, err := a.status.UpdatePart(ctx, resourcedef.PartUpdate{
		Name: name, Info: info, Create: create, Update: update, Options: o,
		Prepare: func(obj, old runtime.Object) {
			c, previous := obj.(*certificatesv1.CertificateSigningRequest),
				old.(*certificatesv1.CertificateSigningRequest)
			conditions := c.Status.Conditions
			c.Spec, c.Status = previous.Spec, *previous.Status.DeepCopy()
			c.Status.Conditions = conditions
			setConditionTimes(c, previous)
		},
	})
	return out, false, err
}

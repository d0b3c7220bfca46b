package provisioner

import (
	"context"
	"encoding/json"
	"fmt"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
)

const gatewayGroup = "gateway.networking.k8s.io"

// referenceGrant is what is read of a ReferenceGrant: who may refer to what of its namespace.
type referenceGrant struct {
	Spec struct {
		From []struct {
			Group     string `json:"group"`
			Kind      string `json:"kind"`
			Namespace string `json:"namespace"`
		} `json:"from"`
		To []struct {
			Group string  `json:"group"`
			Kind  string  `json:"kind"`
			Name  *string `json:"name"`
		} `json:"to"`
	} `json:"spec"`
}

// allows tells whether claims of a namespace may be made from the source.
func (g *referenceGrant) allows(namespace string, source *v1.TypedObjectReference) bool {
	for _, from := range g.Spec.From {
		if from.Group != "" || from.Kind != "PersistentVolumeClaim" || from.Namespace != namespace {
			continue
		}
		for _, to := range g.Spec.To {
			name := ptr.Deref(to.Name, "")
			if to.Group == ptr.Deref(source.APIGroup, "") && to.Kind == source.Kind &&
				(name == "" || name == source.Name) {
				return true
			}
		}
	}
	return false
}

// checkGrant refuses a source in another namespace that no ReferenceGrant there gives to the
// claim's, in the words of the external-provisioner.
func (p *Provisioner) checkGrant(ctx context.Context, c *v1.PersistentVolumeClaim) error {
	source := c.Spec.DataSourceRef
	refused := fmt.Errorf("accessing %s/%s of %s dataSource from %s/%s isn't allowed", *source.Namespace, source.Name,
		source.Kind, c.Namespace, c.Name)
	raw, err := p.o.Client.Discovery().RESTClient().Get().AbsPath("/apis", gatewayGroup, "v1beta1", "namespaces",
		*source.Namespace, "referencegrants").Do(ctx).Raw()
	if apierrors.IsNotFound(err) { // there is no such kind
		return refused
	}
	if err != nil {
		return fmt.Errorf("reading the ReferenceGrants of namespace %s: %w", *source.Namespace, err)
	}
	var list struct {
		Items []referenceGrant `json:"items"`
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return fmt.Errorf("reading the ReferenceGrants of namespace %s: %w", *source.Namespace, err)
	}
	for i := range list.Items {
		if list.Items[i].allows(c.Namespace, source) {
			return nil
		}
	}
	return refused
}

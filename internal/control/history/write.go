package history

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedappsv1 "k8s.io/client-go/kubernetes/typed/apps/v1"
	"k8s.io/utils/ptr"
)

// Collision says that another template has the same hash: the count of collisions is to be raised, and the next look tries again.
type Collision struct{ Name string }

// Error names the revision in the way.
func (c Collision) Error() string {
	return fmt.Sprintf("ControllerRevision %s holds another template with the same hash", c.Name)
}

// Keep writes what Find found wanting and returns the revision as stored.
func Keep(ctx context.Context, client typedappsv1.ControllerRevisionInterface, o Owner, have []*appsv1.ControllerRevision) (*appsv1.ControllerRevision, error) {
	found, err := Find(o, have)
	r := found.Revision
	switch {
	case err != nil:
		return nil, err
	case found.Renumber:
		return client.Update(ctx, r, metav1.UpdateOptions{})
	case !found.Create:
		return r, nil
	}
	made, err := client.Create(ctx, r, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return made, err
	}
	there, err := client.Get(ctx, r.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if owner := metav1.GetControllerOf(there); owner != nil && owner.UID == o.Object.GetUID() && Same(there, r) {
		return there, nil // the cache was behind
	}
	return nil, Collision{r.Name}
}

// Trim deletes revisions beyond the limit (10 where the owner gives none) that are not in use, by their names. An error is the API's.
func Trim(ctx context.Context, client typedappsv1.ControllerRevisionInterface, have []*appsv1.ControllerRevision, inUse map[string]bool, limit *int32) error {
	for _, r := range Excess(have, inUse, int(ptr.Deref(limit, 10))) {
		if err := client.Delete(ctx, r.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

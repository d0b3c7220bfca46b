package furnish

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

var errPending = errors.New("furnish: being written")

func (f *Furnisher) ensure(context.Context, *v1.Pod) (map[string]Mounted, error) {
	return nil, errPending
}
func (f *Furnisher) refresh(context.Context, *v1.Pod) error   { return errPending }
func (f *Furnisher) release(context.Context, types.UID) error { return errPending }
func (f *Furnisher) orphans(context.Context, func(types.UID) bool) ([]types.UID, error) {
	return nil, errPending
}
func (f *Furnisher) prepare(context.Context, SubPath) (string, error) { return "", errPending }

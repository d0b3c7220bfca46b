package controllerruntime_test

import (
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
)

// An error counts under the HTTP status that it has, also when it is wrapped.
func TestStatusCodesOfErrors(t *testing.T) {
	for want, err := range map[string]error{"200": nil, "500": errors.New("no"),
		"409": fmt.Errorf("write: %w", apierrors.NewApplyConflict(nil, "x"))} {
		if got := controllerruntime.StatusCode(err); got != want {
			t.Errorf("%v: got %s, want %s", err, got, want)
		}
	}
	if got := controllerruntime.StatusCode(&apierrors.StatusError{ErrStatus: metav1.Status{}}); got != "500" {
		t.Errorf("a status without a code: got %s, want 500", got)
	}
}

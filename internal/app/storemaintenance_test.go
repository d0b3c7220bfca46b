package app

import (
	"errors"
	"strings"
	"testing"

	"github.com/gantry-project/gantry/internal/apiserver/store"
)

func TestStoreMaintenanceIsLogged(t *testing.T) {
	for want, err := range map[string]error{
		"takes writes again": nil, "holds 8192 MiB of 8192 MiB": &store.NoSpaceError{Size: 8 << 30, Quota: 8 << 30},
		"gantry etcd defrag": &store.NoSpaceError{}, "not well: no route": errors.New("no route"),
	} {
		if got := storeErrorText(err); !strings.Contains(got, want) {
			t.Errorf("%v: %q lacks %q", err, got, want)
		}
	}
}

package auth_test

import (
	"os"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/server/options/encryptionconfig/controller"
)

// The library looks at a file of keys once a minute; tests do not wait that long.
func TestMain(m *testing.M) {
	controller.EncryptionConfigFileChangePollDuration = 100 * time.Millisecond
	os.Exit(m.Run())
}

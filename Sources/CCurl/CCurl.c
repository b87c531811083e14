#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "CCurl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>

// The macros of curl.h check types of variadic calls, and would replace the names below.
#undef curl_easy_setopt
#undef curl_easy_getinfo
#undef curl_multi_setopt

#define FUNCTIONS(use)     \
  use(curl_global_init)    \
  use(curl_easy_init)      \
  use(curl_easy_reset)     \
  use(curl_easy_cleanup)   \
  use(curl_easy_setopt)    \
  use(curl_easy_getinfo)   \
  use(curl_easy_strerror)  \
  use(curl_slist_append)   \
  use(curl_slist_free_all) \
  use(curl_multi_init)     \
  use(curl_multi_cleanup)  \
  use(curl_multi_setopt)   \
  use(curl_multi_add_handle)    \
  use(curl_multi_remove_handle) \
  use(curl_multi_perform)  \
  use(curl_multi_poll)     \
  use(curl_multi_wakeup)   \
  use(curl_multi_info_read)

#define DECLARE(name) __typeof__(&name) name;
static struct {
  FUNCTIONS(DECLARE)
} curl;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static char reason[256];
static const char *failure;

static void fail(const char *text) {
  snprintf(reason, sizeof reason, "%s", text ? text : "unknown error");
  failure = reason;
}

static void load(void) {
  // The second name is that of Debian's other build.
  void *library = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char *text = dlerror();
    library = dlopen("libcurl-gnutls.so.4", RTLD_NOW | RTLD_LOCAL);
    if (!library) return fail(text);
  }
#define FIND(name) \
  if (!(curl.name = (__typeof__(&name))dlsym(library, #name))) return fail(dlerror());
  FUNCTIONS(FIND)
  CURLcode code = curl.curl_global_init(CURL_GLOBAL_DEFAULT);
  if (code != CURLE_OK) fail(curl.curl_easy_strerror(code));
}

const char *ccurl_load(void) {
  pthread_once(&once, load);
  return failure;
}

static curl_socket_t open_socket(void *context, curlsocktype purpose,
                                 struct curl_sockaddr *address) {
  (void)context;
  (void)purpose;
  return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

static void *prepare(void *easy) {
  if (easy) curl.curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, open_socket);
  return easy;
}

void *ccurl_easy_new(void) { return prepare(curl.curl_easy_init()); }

void ccurl_easy_reset(void *easy) {
  curl.curl_easy_reset(easy);
  prepare(easy);
}

void ccurl_easy_free(void *easy) { curl.curl_easy_cleanup(easy); }

CURLcode ccurl_set_number(void *easy, CURLoption option, long value) {
  return curl.curl_easy_setopt(easy, option, value);
}

CURLcode ccurl_set_size(void *easy, CURLoption option, curl_off_t value) {
  return curl.curl_easy_setopt(easy, option, value);
}

CURLcode ccurl_set_text(void *easy, CURLoption option, const char *text) {
  return curl.curl_easy_setopt(easy, option, text);
}

CURLcode ccurl_set_pointer(void *easy, CURLoption option, void *pointer) {
  return curl.curl_easy_setopt(easy, option, pointer);
}

CURLcode ccurl_set_callback(void *easy, CURLoption option, ccurl_callback callback) {
  return curl.curl_easy_setopt(easy, option, callback);
}

CURLcode ccurl_get_size(void *easy, CURLINFO info, curl_off_t *value) {
  return curl.curl_easy_getinfo(easy, info, value);
}

const char *ccurl_error_text(CURLcode code) { return curl.curl_easy_strerror(code); }

struct curl_slist *ccurl_append(struct curl_slist *list, const char *text) {
  return curl.curl_slist_append(list, text);
}

void ccurl_free_list(struct curl_slist *list) { curl.curl_slist_free_all(list); }

void *ccurl_multi_new(long connections) {
  CURLM *multi = curl.curl_multi_init();
  if (multi) curl.curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, connections);
  return multi;
}

void ccurl_multi_free(void *multi) { curl.curl_multi_cleanup(multi); }

CURLMcode ccurl_add(void *multi, void *easy) { return curl.curl_multi_add_handle(multi, easy); }

CURLMcode ccurl_remove(void *multi, void *easy) {
  return curl.curl_multi_remove_handle(multi, easy);
}

CURLMcode ccurl_perform(void *multi) {
  int running = 0;
  return curl.curl_multi_perform(multi, &running);
}

CURLMcode ccurl_poll(void *multi, int milliseconds) {
  return curl.curl_multi_poll(multi, NULL, 0, milliseconds, NULL);
}

CURLMcode ccurl_wake(void *multi) { return curl.curl_multi_wakeup(multi); }

void *ccurl_next_ended(void *multi, CURLcode *result) {
  int left = 0;
  CURLMsg *message;
  while ((message = curl.curl_multi_info_read(multi, &left))) {
    if (message->msg != CURLMSG_DONE) continue;
    *result = message->data.result;
    return message->easy_handle;
  }
  return NULL;
}

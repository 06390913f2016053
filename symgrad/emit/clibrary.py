"""Names that a package of C must not have: somebody else's files, libraries, targets and functions."""

from __future__ import annotations

RESERVED = frozenset((
    "all", "assert", "c", "check", "clean", "complex", "ctype", "dl", "errno", "fenv", "float", "gcc", "help",
    "install", "inttypes", "iso646", "limits", "locale", "m", "math", "omp", "package", "pthread", "rt", "sanitize",
    "setjmp", "signal", "stdalign", "stdarg", "stdatomic", "stdbool", "stdc", "stddef", "stdint", "stdio", "stdlib",
    "stdnoreturn", "string", "test", "tgmath", "threads", "time", "uchar", "unistd", "util", "wchar", "wctype",
))
"""Names of targets, of the standard's headers, and of libraries that every program links."""

LIBRARY = frozenset(
    """abort abs accept access acos acosh alarm aligned_alloc asctime asin asinh atan atan2 atanh atexit atof atoi atol
    atoll bcmp bcopy bind brk bsearch bzero cabs cacos carg casin catan cbrt ccos ceil cexp chdir chmod chown chroot
    clearerr clock clog clone close closedir conj connect copysign cos cosh cpow creal crypt csin csqrt ctan ctime
    daemon difftime dirname div dprintf drem dup dup2 encrypt environ erf erfc err errx exit exp exp10 exp2 expm1 fabs
    fchmod fclose fcntl fdim fdopen feof ferror fflush ffs fgetc fgetpos fgets fileno finite floor fma fmax fmin fmod
    fopen fork fprintf fputc fputs fread free freopen frexp fscanf fseek fsetpos fstat fsync ftell ftime ftruncate ftw
    fwrite gamma getc getchar getcwd getenv getopt getpid gets getuid glob gmtime hypot ilogb index ioctl isatty
    isalnum isalpha isblank iscntrl isdigit isgraph islower isprint ispunct isspace isupper isxdigit j0 j1 jn kill
    labs ldexp ldiv lgamma link listen llabs lldiv llrint llround localeconv localtime log log10 log1p log2 logb
    longjmp lrint lround lseek lstat malloc calloc realloc mblen mbtowc memccpy memchr memcmp memcpy memmove mempcpy
    memset mkdir mktime mmap modf mount munmap nan nearbyint nextafter nexttoward nice open opendir optarg optind
    pause perror pipe poll popen pow printf putc putchar putenv puts qsort quick_exit raise rand random read readdir
    readlink realpath reboot recv remainder remove remquo rename rewind rindex rint rmdir round sbrk scalb scalbln
    scalbn scanf select send setbuf setenv setlocale setvbuf shutdown significand sin sincos sinh sleep snprintf
    socket splice sprintf sqrt srand srandom sscanf stat statfs stime strcat strchr strcmp strcoll strcpy strdup
    strerror strlen strncat strncmp strncpy strpbrk strrchr strspn strstr strtod strtok strtol strtoul strxfrm swab
    symlink sync syscall sysconf system tan tanh tee tgamma times timezone tmpfile tmpnam tolower toupper trunc
    truncate tzset umask uname ungetc unlink unsetenv usleep vfork vfprintf vprintf vsnprintf vsprintf wait waitpid
    warn warnx write y0 y1 yn""".split()  # noqa: SIM905 - as in ir/names.py
) | frozenset(
    f"{name}f" for name in
    """acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh drem erf erfc exp exp10 exp2 expm1 fabs fdim
    finite floor fma fmax fmin fmod frexp gamma hypot ilogb j0 j1 jn ldexp lgamma llrint llround log log10 log1p log2
    logb lrint lround modf nan nearbyint nextafter nexttoward pow remainder remquo rint round scalb scalbln scalbn
    significand sin sincos sinh sqrt tan tanh tgamma trunc y0 y1 yn""".split()  # noqa: SIM905 - likewise
)
"""Functions of C's library and of POSIX: a function of a package has its name, and would be linked in their place."""
